"""What fell back to the CPU, what was compiled, and what fills the memory."""

from dataclasses import dataclass

from torch_tpu import _C, _memory


def fallback_report() -> dict[str, int]:
    """How often each operator without a path on the device ran on the CPU, most frequent first.

    TORCH_TPU_FALLBACK=error turns such calls into errors.
    """
    return dict(sorted(_C._fallback_report().items(), key=lambda item: (-item[1], item[0])))


def reset_fallback_report() -> None:
    """Empty the report."""
    _C._clear_fallback_report()


@dataclass(frozen=True)
class PerfStats:
    """Counters of the compilation cache since the start of the process."""

    num_cache_reqs: int
    num_cache_hits: int
    num_compilations: int
    num_programs: int
    num_cached_calls: int
    compilation_seconds: float


def _get_cache_stats() -> PerfStats:
    stats = _C._compile_stats()
    return PerfStats(
        num_cache_reqs=stats["requests"],
        num_cache_hits=stats["hits"],
        num_compilations=_C._cache_stats()["programs"]["compilations"],
        num_programs=stats["programs"],
        num_cached_calls=stats["cached_calls"],
        compilation_seconds=stats["seconds"],
    )


def _get_cache_requests() -> int:
    return _get_cache_stats().num_cache_reqs


def _get_cache_hits() -> int:
    return _get_cache_stats().num_cache_hits


def _get_cache_misses() -> int:
    stats = _get_cache_stats()
    return stats.num_cache_reqs - stats.num_cache_hits


def _hbm_usage_summary() -> str:
    return _memory.memory_summary()
