"""Memory figures under their CUDA-like names; torch.accelerator.memory_* gives the same."""

from typing import Any

import torch

from torch_tpu._device import DeviceLike, device_index


def memory_stats(device: DeviceLike = None) -> dict[str, Any]:
    """All counters of `device`, named as torch.accelerator.memory_stats does; empty before use."""
    return torch.accelerator.memory_stats(device_index(device))


def memory_allocated(device: DeviceLike = None) -> int:
    """Bytes held by buffers now."""
    return torch.accelerator.memory_allocated(device_index(device))


def max_memory_allocated(device: DeviceLike = None) -> int:
    """Most bytes held by buffers since the start or reset_peak_memory_stats."""
    return torch.accelerator.max_memory_allocated(device_index(device))


def memory_reserved(device: DeviceLike = None) -> int:
    """The same as memory_allocated: nothing is cached."""
    return torch.accelerator.memory_reserved(device_index(device))


def max_memory_reserved(device: DeviceLike = None) -> int:
    """The same as max_memory_allocated: nothing is cached."""
    return torch.accelerator.max_memory_reserved(device_index(device))


def reset_peak_memory_stats(device: DeviceLike = None) -> None:
    """Set peaks to the current figures."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


reset_max_memory_allocated = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: DeviceLike = None) -> None:
    """Set the counts of allocations, frees and failures to zero."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def mem_get_info(device: DeviceLike = None) -> tuple[int, int]:
    """Free and total bytes. TORCH_TPU_MEMORY_LIMIT sets the total on a CPU plugin."""
    return torch.accelerator.get_memory_info(device_index(device))


def empty_cache() -> None:
    """Does nothing, since freed buffers go back to the plugin at once."""


def memory_summary(device: DeviceLike = None, abbreviated: bool = False) -> str:
    """The main figures as a small table."""
    stats = memory_stats(device)
    lines = [f"memory of tpu:{device_index(device)}"]
    if not stats:
        return lines[0] + ": not in use yet"
    free, total = mem_get_info(device)
    lines.append(f"{'capacity':12}{_bytes(total):>12}")
    lines.append(f"{'free':12}{_bytes(free):>12}")
    kinds = ("current", "peak") if abbreviated else ("current", "peak", "allocated", "freed")
    for kind in kinds:
        size = _bytes(stats[f"allocated_bytes.all.{kind}"])
        count = stats[f"allocation.all.{kind}"]
        lines.append(f"{kind:12}{size:>12} in {count} buffers")
    lines.append(f"{'failures':12}{stats['num_ooms']:>12}")
    return "\n".join(lines)


def _bytes(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(n) < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.2f} {unit}"
        n /= 1024
    return f"{n:.2f} TiB"
