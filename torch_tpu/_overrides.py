"""Every place where something of PyTorch's own is replaced, and the gap upstream it stands for."""

import functools
import sys
from types import CellType, FunctionType, ModuleType
from typing import Any

import torch

from torch_tpu import _C
from torch_tpu._import_hooks import after_import


def install() -> None:
    """Apply all overrides, once."""
    _override_autocast_dtype()
    _override_matmul_precision()
    _override_dlpack()
    _override_storage_files()
    _override_storage_slices()
    after_import("safetensors", _override_safetensors)
    _override_reference_functions()


def _override_autocast_dtype() -> None:
    """A backend can't state its default autocast dtype.

    PyTorch keeps the dtype per thread and starts every thread with float16; torch.autocast asks for
    it through torch.get_autocast_dtype, where we set ours at a thread's first question.
    """
    original = torch.get_autocast_dtype

    @functools.wraps(original)
    def get_autocast_dtype(device_type: str) -> torch.dtype:
        _C._ensure_autocast_default()
        return original(device_type)

    # For Dynamo, a constant: it guards the autocast state anyway.
    get_autocast_dtype._dynamo_marked_constant = True  # type: ignore[attr-defined]
    torch.get_autocast_dtype = get_autocast_dtype
    _C._ensure_autocast_default()


def _override_matmul_precision() -> None:
    """A backend isn't told, and "highest" is both PyTorch's default and a wish of the user's."""
    original = torch.set_float32_matmul_precision

    @functools.wraps(original)
    def set_float32_matmul_precision(precision: str) -> None:
        original(precision)
        from torch_tpu import _precision

        _precision.set_by_torch_name(precision)

    torch.set_float32_matmul_precision = set_float32_matmul_precision


def _override_dlpack() -> None:
    """Tensor.__dlpack_device__ knows "privateuse1", not the name that the backend took.

    On a CPU plugin, tensors export as CPU memory; a TPU's memory is nothing DLPack can name.
    """
    original = torch.Tensor.__dlpack__
    original_device = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack__(self: torch.Tensor, **kwargs: Any) -> Any:
        if self.device.type != "tpu":
            return original(self, **kwargs)
        _check_exportable(self)
        if kwargs.pop("copy", None) is False:
            raise BufferError("a tpu tensor can't be exported without a copy")
        if kwargs.pop("stream", None) not in (None, -1):
            raise BufferError("a tpu tensor exports as CPU memory: stream must be None")
        # Values on the device are immutable, so that the consumer gets memory of its own.
        return original(self.cpu(), **kwargs)

    @functools.wraps(original_device)
    def __dlpack_device__(self: torch.Tensor) -> tuple[Any, int]:
        if self.device.type != "tpu":
            return original_device(self)
        _check_exportable(self)
        from torch.utils.dlpack import DLDeviceType

        return (DLDeviceType.kDLCPU, 0)

    torch.Tensor.__dlpack__ = __dlpack__
    torch.Tensor.__dlpack_device__ = __dlpack_device__


def _check_exportable(tensor: torch.Tensor) -> None:
    from torch_tpu import _device

    platform = _device.get_device_properties(tensor.device).platform
    if platform != "cpu":
        raise BufferError(f"DLPack has no name for memory of platform {platform!r}: use .cpu()")
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")


def _override_storage_files() -> None:
    """PyTorch's file format before 1.6, still used by pickle, reads and writes raw addresses."""
    original_swap = torch.UntypedStorage.byteswap
    original_write = torch.UntypedStorage._write_file
    original_read = torch.UntypedStorage._set_from_file

    @functools.wraps(original_swap)
    def byteswap(self: torch.UntypedStorage, dtype: torch.dtype) -> None:
        if self.device.type != "tpu":
            return original_swap(self, dtype)
        host = self.cpu()
        original_swap(host, dtype)
        self.copy_(host)

    @functools.wraps(original_write)
    def _write_file(self: torch.UntypedStorage, *args: Any) -> None:
        original_write(self.cpu() if self.device.type == "tpu" else self, *args)

    @functools.wraps(original_read)
    def _set_from_file(self: torch.UntypedStorage, *args: Any) -> torch.UntypedStorage:
        if self.device.type != "tpu":
            return original_read(self, *args)
        return self.copy_(original_read(torch.UntypedStorage(self.nbytes()), *args))

    torch.UntypedStorage.byteswap = byteswap
    torch.UntypedStorage._write_file = _write_file
    torch.UntypedStorage._set_from_file = _set_from_file


def _override_storage_slices() -> None:
    """A slice of a storage is an address inside another's memory, which ours doesn't have."""
    original = torch.UntypedStorage.__getitem__

    @functools.wraps(original)
    def __getitem__(self: torch.UntypedStorage, index: Any) -> Any:
        if self.device.type == "tpu" and isinstance(index, slice):
            raise NotImplementedError("slices of a tpu storage: slice a tensor, or .cpu() first")
        return original(self, index)

    torch.UntypedStorage.__getitem__ = __getitem__


def _override_safetensors(safetensors: Any) -> None:
    """safetensors has a fixed list of device types; ours are read to the CPU and moved."""
    original = safetensors.safe_open

    class safe_open:
        __doc__ = original.__doc__

        def __new__(cls, filename: Any, framework: str, device: Any = "cpu", **kwargs: Any) -> Any:
            if str(device).partition(":")[0] != "tpu":
                return original(filename, framework, device=device, **kwargs)
            return _MovedTensors(original(filename, framework, device="cpu", **kwargs), device)

    safetensors.safe_open = safe_open
    after_import("safetensors.torch", lambda module: setattr(module, "safe_open", safe_open))


class _MovedTensors:
    """An open safetensors file, or a slice of it, whose tensors come on `device`."""

    def __init__(self, source: Any, device: Any) -> None:
        self._source = source
        self._device = device

    def __enter__(self) -> "_MovedTensors":
        self._source.__enter__()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._source.__exit__(*exc_info)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def __getitem__(self, index: Any) -> torch.Tensor:
        return self._source[index].to(self._device)

    def get_tensor(self, name: str) -> torch.Tensor:
        return self._source.get_tensor(name).to(self._device)

    def get_tensors(self) -> dict[str, torch.Tensor]:
        return {name: t.to(self._device) for name, t in self._source.get_tensors().items()}

    def get_slice(self, name: str) -> "_MovedTensors":
        return _MovedTensors(self._source.get_slice(name), self._device)


def _override_reference_functions() -> None:
    """Reference functions, PyTorch's meta kernels for many operators, import Dynamo when called.

    They are hidden from Dynamo by ``torch._disable_dynamo``, which imports it (1.4 s) at the first
    call although nothing is compiled. Until somebody else imports it, there is nothing to hide
    from.
    """
    if "torch._dynamo" in sys.modules:
        return
    marked: list[Any] = []
    todo: list[Any] = []
    for name, module in list(sys.modules.items()):
        if name == "torch._refs" or name.startswith(("torch._refs.", "torch._decomp.")):
            todo += vars(module).values()
    for table in torch._decomp.global_decomposition_table.values():
        todo += table.values()
    seen: set[int] = set()
    while todo:
        function = todo.pop()
        if not isinstance(function, FunctionType) or id(function) in seen:
            continue
        seen.add(id(function))
        cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        held = {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}
        todo += held.values()
        if function.__code__.co_qualname == "_disable_dynamo.<locals>.inner":
            hidden = held["fn"]
            if not hasattr(hidden, "__dynamo_disable"):
                hidden.__dynamo_disable = hidden
                marked.append(hidden)

    def hide_again(_: ModuleType) -> None:
        for function in marked:
            del function.__dynamo_disable

    after_import("torch._dynamo", hide_again)


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True
