"""The default random generators: one (seed, offset) pair per device, never starting the client."""

from collections.abc import Iterable

import torch

from torch_tpu import _C
from torch_tpu._device import DeviceLike, device_index


def default_generators() -> tuple[torch.Generator, ...]:
    """The default generator of each device."""
    return tuple(_C._default_generators())


def _generator(device: DeviceLike) -> torch.Generator:
    generators = default_generators()
    index = device_index(device)
    if not 0 <= index < len(generators):
        raise RuntimeError(
            f"TPU error: invalid device ordinal {index}: there are {len(generators)}"
        )
    return generators[index]


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; torch.manual_seed does this too."""
    for generator in default_generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    """Seed the generator of the current device with a random number."""
    _generator(None).seed()


def seed_all() -> None:
    """Seed the generators of all devices with one random number."""
    manual_seed_all(_generator(None).seed())


def initial_seed() -> int:
    """The current seed of the current device."""
    return _generator(None).initial_seed()


def get_rng_state(device: DeviceLike = "tpu") -> torch.Tensor:
    """Seed and offset of a device: a uint8 tensor [16] on the CPU."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceLike = "tpu") -> None:
    """Restore what get_rng_state gave. Raises RuntimeError for a state of another form."""
    _generator(device).set_state(new_state.detach().cpu())


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restore what get_rng_state_all gave."""
    for i, state in enumerate(new_states):
        set_rng_state(state, i)
