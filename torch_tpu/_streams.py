"""Streams and events. All work of a device runs in the order issued, so streams only name it."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from torch_tpu._device import DeviceLike, device_index


class Stream(torch.Stream):
    """A named order of work on one device; `priority` and `pinned` are accepted and do nothing."""

    def __new__(
        cls,
        device: DeviceLike = None,
        priority: int = 0,
        *,
        stream_id: int | None = None,
        pinned: Any = None,
        **kwargs: Any,
    ) -> "Stream":
        if kwargs:  # how PyTorch rebuilds a stream: stream_id, device_index, device_type
            return super().__new__(cls, stream_id=stream_id, **kwargs)
        index = device_index(device)
        if stream_id is not None:
            kind = torch.device("tpu", index)
            packed = torch.Stream(device=kind)
            return super().__new__(
                cls, stream_id=stream_id, device_index=index, device_type=packed.device_type
            )
        return super().__new__(cls, torch.device("tpu", index), priority=priority)

    def wait_event(self, event: torch.Event) -> None:
        """Make later work on this stream wait for `event`."""
        event.wait(self)

    def wait_stream(self, stream: torch.Stream) -> None:
        """Make later work on this stream wait for all work issued on `stream`."""
        self.wait_event(stream.record_event())

    def record_event(self, event: torch.Event | None = None) -> torch.Event:
        """Record `event`, or a new one, after all work issued so far."""
        if event is None:
            event = Event(device=self.device)
        event.record(self)
        return event

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and highest priority: there is one."""
        return (0, 0)

    def is_sparse(self) -> bool:
        """Whether the stream runs on SparseCores: never."""
        return False

    def is_dense(self) -> bool:
        """Whether the stream runs on TensorCores: always."""
        return True

    def __repr__(self) -> str:
        return f"<torch.tpu.Stream device={self.device} id={self.stream_id}>"


class _EventType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch.Event) and instance.device.type == "tpu"


class Event(metaclass=_EventType):
    """A point in the device's order of work; times are the host's at completion of the work.

    Makes a torch.Event of the device: PyTorch's streams and events take no subclass of it.
    """

    def __new__(
        cls,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        external: bool = False,
        device: DeviceLike = None,
    ) -> torch.Event:
        if interprocess or external:
            raise NotImplementedError("torch.tpu.Event: only events of one process are possible")
        return torch.Event(
            torch.device("tpu", device_index(device)),
            enable_timing=enable_timing,
            blocking=blocking,
        )


def _wrap(stream: torch.Stream) -> Stream:
    return Stream(
        stream_id=stream.stream_id,
        device_index=stream.device_index,
        device_type=stream.device_type,
    )


def current_stream(device: DeviceLike = None) -> Stream:
    """The calling thread's current stream of `device`."""
    return _wrap(torch._C._accelerator_getStream(device_index(device)))


def default_stream(device: DeviceLike = None) -> Stream:
    """The stream of `device` that is current at first."""
    return Stream(device, stream_id=0)


def set_stream(stream: torch.Stream | None) -> None:
    """Make `stream` and its device current; None does nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


def stream(stream: torch.Stream | None) -> AbstractContextManager[Any]:
    """Context manager: makes `stream` current inside the block; None changes nothing."""
    return nullcontext() if stream is None else stream
