"""The public names: one table, from which ``torch.tpu`` is built and its documentation made.

module -> (purpose, {name -> where it lives and how settled it is}). tests/test_public_api.py holds
the golden copy. Names with an underscore are what PyTorch itself looks for in a device module.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Name:
    """A name: target is "module:attribute"; stage is stable, experimental or internal."""

    target: str
    stage: str = "stable"


@dataclass(frozen=True)
class Property(Name):
    """A value that is read by calling target and, where there is a setter, assigned to."""

    setter: str | None = None
    doc: str = ""


def _from(module: str, stage: str, *names: str) -> dict[str, Name]:
    return {name: Name(f"torch_tpu.{module}:{name}", stage) for name in names}


_MEMORY = _from(
    "_memory",
    "stable",
    "empty_cache",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_peak_memory_stats",
)

_RANDOM: dict[str, Name] = {
    **_from(
        "_random",
        "stable",
        "get_rng_state",
        "get_rng_state_all",
        "initial_seed",
        "manual_seed",
        "manual_seed_all",
        "seed",
        "seed_all",
        "set_rng_state",
        "set_rng_state_all",
    ),
    "default_generators": Property(
        "torch_tpu._random:default_generators", doc="The default generator of each device."
    ),
}

PUBLIC: dict[str, tuple[str, dict[str, Name]]] = {
    "torch.tpu": (
        'Device management, streams, random numbers, memory and numerics of device "tpu".',
        {
            **_from(
                "_device",
                "stable",
                "current_device",
                "device",
                "device_count",
                "device_of",
                "get_device_capability",
                "get_device_name",
                "get_device_properties",
                "init",
                "is_available",
                "is_bf16_supported",
                "is_current_stream_capturing",
                "is_initialized",
                "set_device",
                "synchronize",
            ),
            **_from(
                "_streams",
                "stable",
                "Event",
                "Stream",
                "current_stream",
                "default_stream",
                "set_stream",
                "stream",
            ),
            **_MEMORY,
            **_RANDOM,
            **_from("_amp", "stable", "get_amp_supported_dtype"),
            **_from("_precision", "experimental", "Precision", "precision"),
            **_from("_modes", "experimental", "EagerMode", "set_eager_mode"),
            **_from("_diagnostics", "experimental", "fallback_report", "reset_fallback_report"),
            "eager_mode": Property(
                "torch_tpu._modes:get_eager_mode",
                "experimental",
                setter="torch_tpu._modes:put_eager_mode",
                doc="How eager operators are executed, an EagerMode.",
            ),
            "allow_excess_precision": Property(
                "torch_tpu._precision:get_allow_excess_precision",
                "experimental",
                setter="torch_tpu._precision:put_allow_excess_precision",
                doc="Whether XLA may keep intermediate results in more precision than their dtype.",
            ),
            "_initialized": Property("torch_tpu._device:is_initialized", "internal"),
            **_from(
                "_device",
                "internal",
                "_exchange_device",
                "_get_compute_capability",
                "_get_local_device_attributes",
                "_is_in_bad_fork",
                "_is_triton_capable",
                "_lazy_init",
                "_maybe_exchange_device",
            ),
            **_from(
                "_diagnostics",
                "internal",
                "_get_cache_hits",
                "_get_cache_misses",
                "_get_cache_requests",
                "_get_cache_stats",
                "_hbm_usage_summary",
            ),
            **_from("_cache", "internal", "_clear_cache", "_set_allow_cache", "_set_cache_only"),
            **_from(
                "_amp",
                "stable",
                "get_autocast_dtype",
                "is_autocast_enabled",
                "set_autocast_dtype",
                "set_autocast_enabled",
            ),
        },
    ),
    "torch.tpu.memory": ("Memory statistics.", _MEMORY),
    "torch.tpu.random": ("Random number generators.", _RANDOM),
    "torch.tpu.compiler": (
        "What torch.compile made of a program.",
        _from("_compile", "experimental", "programs"),
    ),
    "torch.tpu.cache": (
        "The cache of compiled programs.",
        _from("_cache", "stable", "cache_only", "clear", "flush", "folder", "stats"),
    ),
    "torch.tpu.amp": (
        "Automatic mixed precision.",
        _from("_amp", "stable", "GradScaler", "autocast", "custom_bwd", "custom_fwd"),
    ),
}
