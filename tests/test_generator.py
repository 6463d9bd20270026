"""Seeds and states of the device's random generators."""

import threading

import pytest
import torch

import torch_tpu  # noqa: F401


@pytest.fixture(autouse=True)
def _restore_state():
    states = torch.tpu.get_rng_state_all()
    yield
    torch.tpu.set_rng_state_all(states)


def draw(**kwargs):
    return torch.rand(1000, device="tpu", **kwargs).cpu()


def test_the_same_seed_gives_the_same_bits():
    torch.manual_seed(7)
    a = draw()
    torch.manual_seed(7)
    assert torch.equal(a, draw())
    assert not torch.equal(a, draw())


def test_torch_manual_seed_seeds_the_device_and_so_do_its_own_functions():
    for seed in (torch.manual_seed, torch.tpu.manual_seed, torch.tpu.manual_seed_all):
        seed(123)
        assert torch.tpu.initial_seed() == 123


def test_negative_seeds_are_remapped_as_on_the_cpu():
    torch.tpu.manual_seed(-1)
    assert torch.tpu.initial_seed() == torch.Generator().manual_seed(-1).initial_seed()


def test_get_and_set_rng_state_repeat_a_draw():
    torch.tpu.manual_seed(3)
    draw()
    state = torch.tpu.get_rng_state()
    assert (state.dtype, state.device.type, state.numel()) == (torch.uint8, "cpu", 16)
    a = draw()
    torch.tpu.set_rng_state(state)
    assert torch.equal(a, draw())


@pytest.mark.parametrize(
    "state", [torch.zeros(15, dtype=torch.uint8), torch.zeros(16, dtype=torch.int32)]
)
def test_a_state_of_another_form_is_refused(state):
    with pytest.raises((RuntimeError, TypeError)):
        torch.tpu.set_rng_state(state)


def test_a_generator_of_its_own_leaves_the_default_one_alone():
    state = torch.tpu.get_rng_state()
    g = torch.Generator(device="tpu").manual_seed(5)
    a = draw(generator=g)
    assert torch.equal(a, draw(generator=torch.Generator("tpu").manual_seed(5)))
    assert torch.equal(state, torch.tpu.get_rng_state())
    assert g.device == torch.device("tpu", 0)


def test_a_cpu_generator_is_refused():
    with pytest.raises(RuntimeError, match="generator"):
        draw(generator=torch.Generator())


def test_clone_and_graphsafe_state():
    g = torch.Generator(device="tpu").manual_seed(1)
    c = g.clone_state()
    assert torch.equal(draw(generator=g), draw(generator=c))
    shared = g.graphsafe_get_state()
    other = torch.Generator(device="tpu")
    other.graphsafe_set_state(shared)
    a = draw(generator=g)
    b = draw(generator=other)
    assert not torch.equal(a, b)
    assert g.get_offset() == other.get_offset()


def test_fork_rng_restores_the_device():
    torch.manual_seed(0)
    state = torch.tpu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        draw()
    assert torch.equal(state, torch.tpu.get_rng_state())


def test_threads_never_draw_the_same_block():
    torch.manual_seed(0)
    results = []

    def work():
        results.extend(torch.rand(64, device="tpu").cpu() for _ in range(10))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len({tuple(r.tolist()) for r in results}) == 40


def test_checkpointing_draws_the_same_dropout_mask_in_backward():
    from torch.utils.checkpoint import checkpoint

    for use_reentrant in (False, True):
        x = torch.ones(1000, device="tpu", requires_grad=True)
        y = checkpoint(torch.nn.functional.dropout, x, 0.5, use_reentrant=use_reentrant)
        y.sum().backward()
        assert torch.equal(y.detach().cpu(), x.grad.cpu())
