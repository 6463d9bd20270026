"""Streams and events, by torch.tpu and by torch.Stream and torch.Event."""

import pytest
import torch

import torch_tpu  # noqa: F401


def test_every_device_has_a_default_stream_that_is_current():
    stream = torch.tpu.current_stream()
    assert stream == torch.tpu.default_stream()
    assert stream.device == torch.device("tpu", 0)
    assert stream == torch.accelerator.current_stream()
    assert isinstance(stream, torch.tpu.Stream)


def test_a_stream_is_current_inside_its_context():
    default = torch.tpu.current_stream()
    stream = torch.tpu.Stream()
    assert stream != default
    with torch.tpu.stream(stream):
        assert torch.tpu.current_stream() == stream
        x = torch.ones(4, device="tpu") * 2
    assert torch.tpu.current_stream() == default
    default.wait_stream(stream)
    assert x.sum().item() == 8
    with stream:
        assert torch.tpu.current_stream() == stream
    with torch.tpu.stream(None):
        pass


def test_set_stream():
    default, stream = torch.tpu.current_stream(), torch.tpu.Stream(priority=-1)
    torch.tpu.set_stream(stream)
    assert torch.tpu.current_stream() == stream
    torch.tpu.set_stream(default)
    assert torch.tpu.current_stream() == default


def test_events_order_streams_and_complete():
    event = torch.tpu.Event()
    assert event.query()
    stream = torch.tpu.Stream()
    x = torch.ones(256, 256, device="tpu")
    x = x @ x
    event.record()
    stream.wait_event(event)
    event.wait(stream)
    event.synchronize()
    assert event.query()
    assert stream.query()
    stream.synchronize()
    assert isinstance(stream.record_event(), torch.tpu.Event)
    x.record_stream(stream)


def test_elapsed_time_is_that_of_the_work():
    start, end = (torch.tpu.Event(enable_timing=True) for _ in range(2))
    x = torch.ones(512, 512, device="tpu")
    x @ x
    start.record()
    for _ in range(5):
        x = (x @ x).clamp(max=1)
    end.record()
    end.synchronize()
    assert 0 < start.elapsed_time(end) < 60_000


def test_elapsed_time_without_timing_is_refused():
    a, b = torch.tpu.Event(), torch.tpu.Event()
    a.record()
    b.record()
    with pytest.raises((RuntimeError, ValueError)):
        a.elapsed_time(b)


def test_generic_streams_and_events():
    stream = torch.Stream("tpu")
    event = torch.Event("tpu", enable_timing=True)
    event.record(stream)
    event.synchronize()
    assert event.query()
    assert stream.query()


def test_interprocess_events_are_not_offered():
    with pytest.raises(NotImplementedError):
        torch.tpu.Event(interprocess=True)
