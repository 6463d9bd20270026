"""Tells PyTorch about the device, once."""

import atexit
import importlib
from types import ModuleType

import torch

from torch_tpu import _namespaces

_installed = False


def install() -> None:
    """Name the backend, give tensors and modules their methods, register ``torch.tpu``.

    Starts neither client nor thread. Safe to call again.
    """
    global _installed
    if _installed:
        return
    native = _load_native()
    _installed = True

    # Imported late: they need the native module.
    from torch_tpu import _cache, _dynamo_hook, _overrides, _plugins

    native._set_plugin_resolver(_plugins.resolve)
    native._set_availability(_plugins.is_available)
    _cache.install_fleet_tier()
    torch.utils.rename_privateuse1_backend("tpu")
    torch._register_device_module("tpu", _namespaces.install())
    torch.utils.generate_methods_for_privateuse1_backend(
        for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=True
    )
    _overrides.install()
    _dynamo_hook.install()
    # Before the interpreter and the plugin take apart what the native threads use.
    atexit.register(native._shutdown_runtime)


def _load_native() -> ModuleType:
    try:
        return importlib.import_module("torch_tpu._C")
    except ModuleNotFoundError as error:
        raise ImportError(
            "torch_tpu is not built: its native module torch_tpu._C is missing. Run `make build` "
            "in the source tree, or `pip install .`"
        ) from error
