"""How exactly matrices of float32 are multiplied."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from torch_tpu import _C


class Precision(Enum):
    """bfloat16 passes in a float32 product on a TPU: one, three or six."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2


_BY_TORCH_NAME = {
    "medium": Precision.DEFAULT,
    "high": Precision.HIGH,
    "highest": Precision.HIGHEST,
}


def set_by_torch_name(name: str) -> None:
    """What torch.set_float32_matmul_precision means for this device."""
    _C._set_float32_matmul_precision(_BY_TORCH_NAME[name].value)


@contextmanager
def precision(mode: Precision | str) -> Iterator[None]:
    """Context manager: float32 matrix products in `mode`, in the whole process.

    A CPU plugin computes exactly in every mode unless TORCH_TPU_EMULATE_MXU=1.
    """
    mode = Precision[mode.upper()] if isinstance(mode, str) else Precision(mode)
    before = _C._get_float32_matmul_precision()
    _C._set_float32_matmul_precision(mode.value)
    try:
        yield
    finally:
        _C._set_float32_matmul_precision(before)


def get_allow_excess_precision() -> bool:
    """Whether XLA may keep intermediate results in more precision than their dtype."""
    return _C._get_allow_excess_precision()


def put_allow_excess_precision(allow: bool) -> None:
    """Applies to programs compiled from now on."""
    _C._set_allow_excess_precision(bool(allow))
