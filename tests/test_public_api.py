"""The surface of torch.tpu: the golden copy, and that every name exists and is documented."""

import importlib

import pytest
import torch

import torch_tpu  # noqa: F401
from torch_tpu._public import PUBLIC, Property

GOLDEN = {
    "torch.tpu": """
        EagerMode Event Precision Stream allow_excess_precision current_device current_stream
        default_generators default_stream device device_count device_of eager_mode empty_cache
        fallback_report get_amp_supported_dtype get_autocast_dtype get_device_name
        get_device_properties get_rng_state get_rng_state_all init initial_seed
        is_autocast_enabled is_available is_bf16_supported is_initialized manual_seed
        manual_seed_all max_memory_allocated max_memory_reserved mem_get_info memory_allocated
        memory_reserved memory_stats memory_summary precision reset_accumulated_memory_stats
        reset_fallback_report reset_max_memory_allocated reset_peak_memory_stats seed seed_all
        set_autocast_dtype set_autocast_enabled set_device set_eager_mode set_rng_state
        set_rng_state_all set_stream stream synchronize
    """,
    "torch.tpu.memory": """
        empty_cache max_memory_allocated max_memory_reserved mem_get_info memory_allocated
        memory_reserved memory_stats memory_summary reset_accumulated_memory_stats
        reset_max_memory_allocated reset_peak_memory_stats
    """,
    "torch.tpu.random": """
        default_generators get_rng_state get_rng_state_all initial_seed manual_seed
        manual_seed_all seed seed_all set_rng_state set_rng_state_all
    """,
    "torch.tpu.cache": "cache_only clear flush folder stats",
    "torch.tpu.compiler": "programs",
    "torch.tpu.amp": "GradScaler autocast custom_bwd custom_fwd",
}
ALL = [(module, name) for module, (_, names) in PUBLIC.items() for name in names]


@pytest.mark.parametrize("module", sorted(GOLDEN))
def test_the_surface_is_the_golden_copy(module):
    names = {n for n in PUBLIC[module][1] if not n.startswith("_")}
    assert names >= set(GOLDEN[module].split())


@pytest.mark.parametrize(("module", "name"), ALL)
def test_every_public_name_resolves_and_is_documented(module, name):
    entry = PUBLIC[module][1][name]
    value = getattr(importlib.import_module(module), name)
    assert entry.stage in ("stable", "experimental", "internal")
    if name.startswith("_"):
        return
    assert entry.doc if isinstance(entry, Property) else value.__doc__


def test_unknown_names_are_attribute_errors():
    assert not hasattr(torch.tpu, "no_such_name")
    with pytest.raises(AttributeError, match=r"torch\.tpu"):
        _ = torch.tpu.no_such_name


def test_submodules_can_be_imported():
    module = importlib.import_module("torch.tpu.random")
    assert module is torch.tpu.random
    assert torch.get_device_module("tpu") is torch.tpu
