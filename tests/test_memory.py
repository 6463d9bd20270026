"""Memory figures, the emulated capacity, and pinned host memory."""

import gc
import os
import subprocess
import sys

import pytest
import torch

import torch_tpu  # noqa: F401

MIB = 1 << 20


def check(code: str, **env: str) -> None:
    result = subprocess.run(
        [sys.executable, "-c", "import torch, torch_tpu\n" + code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr


def test_asking_for_figures_starts_no_client():
    check(
        """
assert torch.accelerator.memory_allocated() == 0
assert torch.tpu.memory_stats() == {}
torch.accelerator.reset_peak_memory_stats()
torch.accelerator.reset_accumulated_memory_stats()
torch.accelerator.empty_cache()
assert not torch.tpu.is_initialized()
"""
    )


def test_allocated_bytes_follow_tensors():
    gc.collect()
    before = torch.tpu.memory_allocated()
    x = torch.ones(MIB, device="tpu")
    assert torch.tpu.memory_allocated() - before == 4 * MIB
    y = x.view(2, -1).t()
    assert torch.tpu.memory_allocated() - before == 4 * MIB
    del x, y
    assert torch.tpu.memory_allocated() == before


def test_peaks_and_totals_are_kept_and_reset():
    torch.tpu.reset_peak_memory_stats()
    base = torch.tpu.memory_allocated()
    x = torch.ones(MIB, device="tpu")
    del x
    assert torch.tpu.max_memory_allocated() - base >= 4 * MIB
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == torch.tpu.memory_allocated()
    torch.accelerator.reset_accumulated_memory_stats()
    kept = torch.ones(MIB, device="tpu")
    stats = torch.accelerator.memory_stats()
    assert stats["allocated_bytes.all.allocated"] >= 4 * MIB
    assert stats["allocated_bytes.all.freed"] >= 0
    assert stats["allocated_bytes.all.current"] >= kept.nbytes
    assert torch.accelerator.memory_reserved() == torch.accelerator.memory_allocated()


def test_memory_info_and_summary():
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total
    assert torch.tpu.mem_get_info()[1] == total
    assert "capacity" in torch.tpu.memory_summary()


def test_an_emulated_capacity_raises_out_of_memory_with_a_breakdown_and_work_goes_on():
    check(
        """
x = torch.ones(4 << 20, device="tpu")  # 16 MiB
free, total = torch.accelerator.get_memory_info()
assert total == 64 << 20 and free == 48 << 20, (free, total)
assert torch.tpu.get_device_properties().total_memory == total
try:
    y = torch.ones(16 << 20, device="tpu")
    torch.tpu.synchronize()
except torch.OutOfMemoryError as error:
    text = str(error)
    assert "Tried to allocate 64" in text and "16" in text, text
else:
    raise AssertionError
assert torch.accelerator.memory_stats()["num_ooms"] == 1
assert (x + 1).sum().item() == 2 * (4 << 20)
""",
        TORCH_TPU_MEMORY_LIMIT="64MiB",
    )


@pytest.mark.parametrize("limit", ["-1", "lots", "0"])
def test_an_impossible_memory_limit_is_refused(limit):
    check(
        """
try:
    torch.ones(1 << 20, device="tpu")
except (ValueError, RuntimeError) as error:
    assert "TORCH_TPU_MEMORY_LIMIT" in str(error), error
else:
    raise AssertionError
""",
        TORCH_TPU_MEMORY_LIMIT=limit,
    )


def test_pinned_memory_is_known_as_such_and_starts_no_client():
    check(
        """
x = torch.ones(1000)
assert not x.is_pinned()
p = x.pin_memory()
assert p.is_pinned() and p.device.type == "cpu" and torch.equal(p, x)
assert p[10:].is_pinned() and p.data_ptr() % 4096 == 0
e = torch.empty(100, pin_memory=True)
assert e.is_pinned()
assert torch.empty(0).pin_memory().numel() == 0
torch.accelerator.empty_host_cache()
assert not torch.tpu.is_initialized()
"""
    )


def test_pinned_memory_transfers_both_ways():
    p = torch.arange(1000.0).pin_memory()
    d = p.to("tpu", non_blocking=True)
    back = torch.empty(1000, pin_memory=True)
    back.copy_(d, non_blocking=True)
    torch.tpu.synchronize()
    assert torch.equal(back, p)
