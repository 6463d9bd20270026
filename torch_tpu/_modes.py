"""How eager operators are executed."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from torch_tpu import _C


class EagerMode(Enum):
    """When an eager operator runs."""

    DEFER_AND_FUSE = "defer_and_fuse"
    """Recorded, and run together with others as one program."""
    DEFER_NEVER = "defer_never"
    """At once, asynchronously. The default."""
    DEFER_NEVER_AND_LAUNCH_BLOCKING = "defer_never_and_launch_blocking"
    """At once, and waited for: an error shows on the line that made it."""


def get_eager_mode() -> EagerMode:
    """The mode in force."""
    if _C._get_launch_blocking():
        return EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING
    return EagerMode.DEFER_NEVER


def put_eager_mode(mode: EagerMode) -> None:
    """Change the mode of the process. Raises NotImplementedError for DEFER_AND_FUSE."""
    if mode is EagerMode.DEFER_AND_FUSE:
        raise NotImplementedError(
            "EagerMode.DEFER_AND_FUSE is not implemented yet: use DEFER_NEVER or torch.compile"
        )
    if not isinstance(mode, EagerMode):
        raise TypeError(f"expected a torch.tpu.EagerMode, got {mode!r}")
    _C._set_launch_blocking(mode is EagerMode.DEFER_NEVER_AND_LAUNCH_BLOCKING)


@contextmanager
def set_eager_mode(mode: EagerMode) -> Iterator[None]:
    """Context manager: eager operators run in `mode` inside the block."""
    before = get_eager_mode()
    put_eager_mode(mode)
    try:
        yield
    finally:
        put_eager_mode(before)
