"""The entry point in group "torch.backends": what makes ``import torch`` enough."""

import importlib.util


def load() -> None:
    """Register device "tpu"; does nothing in a source tree that isn't built."""
    if importlib.util.find_spec("torch_tpu._C") is None:
        return
    from torch_tpu import _registration

    _registration.install()
