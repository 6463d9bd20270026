"""Which device is current, what there is, and waiting for it."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import torch

from torch_tpu import _C, _plugins

DeviceLike: TypeAlias = torch.device | int | str | None


def device_index(device: DeviceLike) -> int:
    """The index that `device` means: an int, "tpu", "tpu:1", a torch.device, or None (current).

    Raises ValueError for a device of another type.
    """
    if device is None:
        return _C._current_device()
    if isinstance(device, int):
        return device
    if isinstance(device, str):
        device = torch.device(device)
    if not isinstance(device, torch.device) or device.type != "tpu":
        raise ValueError(f"expected a tpu device, an index or None, got {device!r}")
    return _C._current_device() if device.index is None else device.index


def is_available() -> bool:
    """Whether a TPU with libtpu or a CPU plugin is there. Loads and starts nothing."""
    return _plugins.is_available()


def is_initialized() -> bool:
    """Whether the client has been started, which the first use of the device does."""
    return _C._is_initialized()


def init() -> None:
    """Start the client now. Raises RuntimeError saying what is missing and what to install."""
    _C._init()


def _lazy_init() -> None:
    """PyTorch calls this before it makes a tensor; the client starts later, when it is needed."""


def device_count() -> int:
    """The number of devices of this process, constant; 0 when the device can't be used."""
    return _C._device_count() if is_available() else 0


def current_device() -> int:
    """The index of the calling thread's current device."""
    return _C._current_device()


def set_device(device: DeviceLike) -> None:
    """Make `device` the calling thread's current one; negative indices do nothing."""
    _C._set_device(device_index(device))


def _exchange_device(device: int) -> int:
    return _C._exchange_device(device)


def _maybe_exchange_device(device: int) -> int:
    return _C._exchange_device(device) if device >= 0 else -1


def _is_in_bad_fork() -> bool:
    return _C._is_in_bad_fork()


def synchronize(device: DeviceLike = None) -> None:
    """Wait for all work issued on `device`; raises the error of work that failed."""
    _C._synchronize(device_index(device))


class device:
    """Context manager: makes `device` current inside the block. None changes nothing."""

    def __init__(self, device: DeviceLike) -> None:
        self.idx = -1 if device is None else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _maybe_exchange_device(self.idx)

    def __exit__(self, *exc_info: object) -> None:
        _maybe_exchange_device(self.prev_idx)


class device_of(device):
    """Context manager: makes the device of a tensor or storage current; no-op for others'."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == "tpu" else None)


@dataclass(frozen=True)
class DeviceProperties:
    """What the plugin says about a device; `platform` is "cpu" when there is no TPU."""

    name: str
    platform: str
    platform_version: str
    plugin: str
    api_version: tuple[int, int]
    total_memory: int
    multi_processor_count: int = 1
    attributes: dict[str, Any] = field(default_factory=dict, repr=False, hash=False)


@cache
def _properties(index: int) -> DeviceProperties:
    return DeviceProperties(**_C._device_properties(index))


def get_device_properties(device: DeviceLike = None) -> DeviceProperties:
    """Name, platform, plugin, memory in bytes and the plugin's attributes. Starts the client."""
    return _properties(device_index(device))


def get_device_name(device: DeviceLike = None) -> str:
    """The plugin's name for the kind of device, such as "TPU v5 lite" or "cpu"."""
    return get_device_properties(device).name


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True: every plugin computes in bfloat16."""
    return True


def get_device_capability(device: DeviceLike = None) -> tuple[int, int]:
    """The generation of a TPU and 0 ("TPU v6 lite": (6, 0)), (0, 0) on other platforms."""
    return _get_compute_capability(device), 0


def is_current_stream_capturing() -> bool:
    """False: streams aren't captured, torch.compile makes programs."""
    return False


def _get_local_device_attributes() -> list[dict[str, Any]]:
    return [get_device_properties(i).attributes for i in range(device_count())]


def _get_compute_capability(device: DeviceLike = None) -> int:
    """The generation in the name of a TPU ("TPU v6 lite": 6), 0 on other platforms."""
    words = get_device_name(device).lower().split()
    versions = [w[1:] for w in words if w.startswith("v") and w[1:2].isdigit()]
    return int("".join(c for c in versions[0] if c.isdigit())) if versions else 0


def _is_triton_capable(device: DeviceLike = None) -> bool:
    return False


# What torch.compiler.assume_constant_result would set, without importing Dynamo.
for _function in (is_available, is_initialized, device_count, is_bf16_supported):
    _function._dynamo_marked_constant = True  # type: ignore[attr-defined]
del _function
