"""PyTorch on device "tpu", through StableHLO and PJRT.

Importing this package, or just ``torch`` once it is installed, registers the device; nothing is
started before its first use. The public API is :mod:`torch.tpu`.
"""

# torch first: it autoloads this package, which must find nothing half imported.
import torch  # noqa: F401

from torch_tpu import _registration
from torch_tpu._version import __version__

_registration.install()

__all__ = ["__version__"]
