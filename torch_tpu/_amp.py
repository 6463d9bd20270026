"""Automatic mixed precision: bfloat16 by default, CUDA's lists of operators."""

import functools
from typing import Any

import torch


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that torch.autocast("tpu", dtype=...) takes."""
    return [torch.bfloat16, torch.float16, torch.float32, torch.float64]


class autocast(torch.amp.autocast):
    """torch.autocast("tpu"), with dtype bfloat16 unless given."""

    def __init__(
        self,
        enabled: bool = True,
        dtype: torch.dtype = torch.bfloat16,
        cache_enabled: bool = True,
    ) -> None:
        super().__init__("tpu", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


class GradScaler(torch.amp.GradScaler):
    """torch.amp.GradScaler("tpu"): for float16; bfloat16 needs no scaling."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("tpu", *args, **kwargs)


custom_fwd = functools.partial(torch.amp.custom_fwd, device_type="tpu")
custom_bwd = functools.partial(torch.amp.custom_bwd, device_type="tpu")


def is_autocast_enabled() -> bool:
    """Whether the calling thread is in an autocast region of this device."""
    return torch.is_autocast_enabled("tpu")


def set_autocast_enabled(enabled: bool) -> None:
    """Enter or leave autocast in the calling thread."""
    torch.set_autocast_enabled("tpu", enabled)


def get_autocast_dtype() -> torch.dtype:
    """The calling thread's autocast dtype of this device."""
    return torch.get_autocast_dtype("tpu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Change the calling thread's autocast dtype of this device."""
    torch.set_autocast_dtype("tpu", dtype)
