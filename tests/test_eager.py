"""What the frame around every rule owes: scalars, errors, mutation, promotion, memory."""

import gc

import pytest
import torch

from torch_tpu import _C


def _bits(t: torch.Tensor) -> list[int]:
    return t.cpu().contiguous().view(torch.int32).flatten().tolist()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, s: x * s,
        lambda x, s: x + s,
        lambda x, s: x - s,
        lambda x, s: x / s,
        lambda x, s: torch.pow(x.abs(), s),
        lambda x, s: torch.add(x, x, alpha=s),
        lambda x, s: torch.clamp(x, max=s),
        lambda x, s: torch.where(x > 0, x, s),
    ],
)
def test_another_scalar_never_changes_the_bits_of_the_first(call) -> None:
    torch.manual_seed(0)
    x = torch.randn(257, device="tpu")
    first = _bits(call(x, 3.0))
    for other in (0.1, 7.0, 1.0):
        call(x, other)
        assert _bits(call(x, 3.0)) == first


def test_scalars_share_one_program() -> None:
    x = torch.randn(11, device="tpu")
    x * 0.25
    before = _C._compile_stats()["compilations"]
    for value in (0.5, 3.0, -1.0, 1e-3):
        torch.testing.assert_close((x * value).cpu(), x.cpu() * value)
    assert _C._compile_stats()["compilations"] == before


def test_zero_dim_cpu_tensors_are_operands_and_sources() -> None:
    x = torch.arange(3.0, device="tpu")
    s = torch.tensor(2.0)
    assert (x * s).cpu().tolist() == [0.0, 2.0, 4.0]
    assert (s - x).cpu().tolist() == [2.0, 1.0, 0.0]
    x[1] = s
    assert x.cpu().tolist() == [0.0, 2.0, 2.0]
    assert (torch.arange(3, device="tpu") + torch.tensor(1.5)).dtype == torch.float32


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: torch.ones(2, device="tpu") + torch.ones(2), RuntimeError),
        (lambda: torch.ones(2, 3, device="tpu") @ torch.ones(2, 3, device="tpu"), RuntimeError),
        (lambda: torch.ones(2, device="tpu") + torch.ones(3, device="tpu"), RuntimeError),
        (
            lambda: torch.mm(
                torch.ones(2, 2, device="tpu"), torch.ones(2, 2, dtype=torch.long, device="tpu")
            ),
            RuntimeError,
        ),
        (lambda: torch.empty(-1, device="tpu"), RuntimeError),
        (lambda: torch.ones(2, device="tpu").sum(5), IndexError),
        (lambda: torch.ones(2, device="tpu").transpose(0, 3), IndexError),
        (lambda: torch.ones(2, device="tpu").add_(torch.ones(2, 2, device="tpu")), RuntimeError),
        (lambda: torch.ones(2, dtype=torch.long, device="tpu").add_(1.5), RuntimeError),
        (lambda: torch.ones(2, device="tpu").to("tpu:99"), RuntimeError),
        (lambda: torch.ones(2, device="tpu").numpy(), TypeError),
        (lambda: torch.add(torch.ones(2, device="tpu"), 1, out=torch.ones(2)), RuntimeError),
        (
            lambda: torch.add(
                torch.ones(2, device="tpu"), 1.5, out=torch.ones(2, dtype=torch.long, device="tpu")
            ),
            RuntimeError,
        ),
        (
            lambda: torch.cat([torch.ones(2, 2, device="tpu"), torch.ones(2, 3, device="tpu")]),
            RuntimeError,
        ),
    ],
)
def test_bad_input_raises_and_the_device_works_on(call, error: type[Exception]) -> None:
    with pytest.raises(error):
        call()
    assert (torch.ones(2, device="tpu") + 1).cpu().tolist() == [2.0, 2.0]


def test_out_tensors_are_resized_and_written() -> None:
    out = torch.empty(0, device="tpu")
    torch.add(torch.ones(2, 2, device="tpu"), 1, out=out)
    assert out.shape == (2, 2)
    assert out.cpu().tolist() == [[2.0, 2.0], [2.0, 2.0]]
    part = torch.zeros(4, device="tpu")
    torch.mul(torch.ones(2, device="tpu"), 3, out=part[1:3])
    assert part.cpu().tolist() == [0.0, 3.0, 3.0, 0.0]


def test_lists_written_in_place_bump_versions() -> None:
    xs = [torch.ones(2, device="tpu") for _ in range(2)]
    before = [x._version for x in xs]
    torch._foreach_add_(xs, 1.0)
    assert all(x._version > v for x, v in zip(xs, before, strict=True))
    assert xs[0].cpu().tolist() == [2.0, 2.0]


def test_moving_a_module_keeps_parameters_tying_and_the_optimizer() -> None:
    torch.manual_seed(0)
    a, b = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(3, 3, bias=False)
    b.weight = a.weight
    model = torch.nn.Sequential(a, b)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weight = a.weight
    model.to("tpu")
    assert a.weight is weight
    assert b.weight is weight
    assert weight.is_tpu
    before = weight.detach().cpu().clone()
    model(torch.ones(1, 3, device="tpu")).sum().backward()
    optimizer.step()
    assert not torch.equal(weight.detach().cpu(), before)


def test_conjugate_and_negative_views_are_honoured() -> None:
    z = torch.tensor([1 + 2j, 3 - 1j])
    d = z.to("tpu")
    assert torch.equal((d.conj() * d).cpu(), z.conj() * z)
    assert torch.equal(d.conj().imag.cpu(), z.conj().imag)
    assert torch.equal(d.conj().cpu(), z.conj())
    w = torch.zeros(2, dtype=torch.complex64, device="tpu")
    w.copy_(d.conj())
    assert torch.equal(w.cpu(), z.conj().resolve_conj())
    v = torch.zeros(2, dtype=torch.complex64, device="tpu")
    v.conj().copy_(d)
    assert torch.equal(v.cpu(), z.conj().resolve_conj())


def test_nan_and_infinities_behave_as_on_the_cpu() -> None:
    x = torch.tensor([float("nan"), 1.0, float("inf"), -float("inf"), -0.0])
    y = torch.tensor([2.0, float("nan"), 1.0, 0.0, 0.0])
    d, e = x.to("tpu"), y.to("tpu")
    for f in (torch.maximum, torch.minimum, torch.fmax, torch.fmin, torch.add):
        torch.testing.assert_close(f(d, e).cpu(), f(x, y), equal_nan=True, rtol=0, atol=0)
    assert d.max().isnan().item()
    assert d.amin().isnan().item()
    assert torch.signbit((d * 1.0).cpu())[4]


def test_bfloat16_rounds_after_every_operation() -> None:
    torch.manual_seed(0)
    a, b, c = (torch.randn(512).bfloat16() for _ in range(3))
    got = (a.to("tpu") * b.to("tpu") + c.to("tpu")).cpu()
    assert torch.equal(got, a * b + c)


def test_memory_does_not_grow_over_many_calls() -> None:
    x, y = torch.randn(8, 8, device="tpu"), torch.randn(8, 8, device="tpu")
    for i in range(2000):
        x + y
        x[i % 8] * 2

    def resident() -> int:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096

    gc.collect()
    torch.accelerator.synchronize()
    buffers = torch.tpu.memory_allocated()
    before = resident()
    for i in range(100_000):
        x + y
        if i % 10_000 == 0:
            x[i % 8] * 2
    torch.accelerator.synchronize()
    assert torch.tpu.memory_allocated() == buffers
    assert resident() - before < 8 << 20


def test_results_have_the_strides_of_the_cpu() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    d = x.to("tpu")
    assert d.stride() == x.stride()
    for f in (
        lambda t: t + 1,
        lambda t: t.relu(),
        lambda t: t.permute(2, 0, 1, 3) * 2,
        lambda t: torch.nn.functional.conv2d(t, torch.ones(6, 3, 3, 3, device=t.device)),
        lambda t: torch.nn.functional.max_pool2d(t, 2),
    ):
        assert f(d).stride() == f(x).stride()


def test_memory_does_not_grow_over_training_steps() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4)
    ).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 16, device="tpu")

    def step() -> None:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()

    for _ in range(20):
        step()
    torch.accelerator.synchronize()
    buffers = torch.tpu.memory_allocated()
    programs = _C._compile_stats()["programs"]
    for i in range(200):
        optimizer.param_groups[0]["lr"] = 1e-3 / (i + 1)
        step()
    torch.accelerator.synchronize()
    assert torch.tpu.memory_allocated() - buffers < 4096  # learning rates in the scalar cache
    assert _C._compile_stats()["programs"] == programs


def test_like_factories_go_to_the_device_they_are_given():
    x = torch.ones(2, 3, device="tpu").t()
    for device in ("cpu", "meta"):
        for f in (torch.zeros_like, torch.ones_like, torch.empty_like, torch.rand_like):
            y = f(x, device=device)
            assert y.device.type == device
            assert y.stride() == (1, 3)
        assert torch.full_like(x, 3, device=device).device.type == device
        assert x.new_zeros(4, device=device).device.type == device
        assert x.new_full((2,), 1.5, device=device).device.type == device
    assert torch.equal(torch.full_like(x, 3, device="cpu"), torch.full((3, 2), 3.0))
    # Tensors that are looked at go there too.
    assert torch.linspace(x[0, 0], 5, 3, device="cpu").tolist() == [1, 3, 5]


def test_cpu_numbers_are_operands_of_python_meta_kernels_too():
    x, mask = torch.ones(2, device="tpu"), torch.tensor([True, False], device="tpu")
    value = torch.tensor(3.0)
    assert x.masked_fill(mask, value).tolist() == [3, 1]
    assert torch.where(mask, value, x).tolist() == [3, 1]
    assert x.clamp(max=value).tolist() == [1, 1]
