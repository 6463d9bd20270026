"""Reductions and scans against the CPU: NaN, empty and 0-d tensors, ties, corrections."""

from functools import partial

import pytest
import torch
from against_cpu import assert_agrees

NAN = float("nan")
INF = float("inf")

same = partial(assert_agrees, gradients=False)


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin", "amax", "amin", "aminmax"])
def test_nan_wins_in_every_extremum(name):
    x = torch.tensor([[1.0, NAN, 3.0, NAN], [INF, -INF, 2.0, 2.0], [0.0, -0.0, 0.0, -1.0]])
    f = getattr(torch, name)
    same(lambda t: tuple(f(t)) if name == "aminmax" else f(t), x)
    same(lambda t: tuple(f(t, dim=1)) if name in ("max", "min", "aminmax") else f(t, dim=1), x)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.bfloat16])
def test_the_first_of_equal_extrema_is_named(dtype):
    x = torch.tensor([[0, 1, 1, 0], [1, 0, 0, 1]]).to(dtype)
    same(lambda t: tuple(t.max(dim=1)), x)
    same(lambda t: tuple(t.min(dim=0, keepdim=True)), x)


@pytest.mark.parametrize("correction", [0, 1, 3, 9, 0.5])
@pytest.mark.parametrize("name", ["var", "std"])
def test_corrections_beyond_the_count_divide_by_zero_as_on_the_cpu(name, correction):
    x = torch.randn(5, 3, dtype=torch.float64)
    same(lambda t: getattr(torch, name)(t, dim=0, correction=correction), x)
    same(lambda t: getattr(torch, name + "_mean")(t, dim=(0, 1), correction=correction), x)


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF, -1])
def test_norms_of_every_order(p):
    x = torch.tensor([[3.0, -4.0, 0.5], [1e-3, 2.0, -7.0]])
    same(lambda t: torch.linalg.vector_norm(t, p, dim=1), x)
    same(lambda t: torch.linalg.vector_norm(t, p), x.to(torch.complex64) * (1 + 2j))


@pytest.mark.parametrize(
    "f", [torch.sum, torch.prod, torch.mean, torch.any, torch.all, torch.nansum, torch.logcumsumexp]
)
def test_empty_and_0d_tensors_reduce_to_the_identity(f):
    for x in [torch.zeros(0), torch.zeros(3, 0), torch.tensor(2.5)]:
        if f is torch.logcumsumexp:
            same(lambda t: f(t, -1), x)
        else:
            same(f, x)


@pytest.mark.parametrize("f", [torch.max, torch.min, torch.argmax, torch.argmin])
def test_extrema_of_nothing_are_refused(f):
    expected = IndexError if f in (torch.argmax, torch.argmin) else RuntimeError
    for device in ("cpu", "tpu"):
        with pytest.raises(expected):
            f(torch.zeros(0, device=device))


def test_logsumexp_of_infinities_is_not_nan():
    x = torch.tensor([[-INF, -INF], [INF, 1.0], [INF, -INF], [1000.0, 1000.0]])
    same(lambda t: torch.logsumexp(t, 1), x)


@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 1000])
def test_scans_agree_across_block_borders(n):
    x = torch.rand(3, n, dtype=torch.float64) + 0.5
    for f in [torch.cumsum, torch.cumprod, torch.logcumsumexp]:
        same(lambda t: f(t, 1), x)  # noqa: B023
        same(lambda t: f(t, 0), x)  # noqa: B023


def test_logcumsumexp_adds_up_in_double_as_on_the_cpu():
    # In single precision the last step rounds to the other side.
    x = torch.tensor([-10000.4971, -10001.3926, -10001.0498])
    assert torch.equal(x.to("tpu").logcumsumexp(0).cpu(), x.logcumsumexp(0))


@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_running_extrema_move_on_at_ties_and_nans(name):
    x = torch.tensor([1.0, 3.0, 3.0, NAN, 5.0, NAN, 0.0])
    same(lambda t: tuple(getattr(torch, name)(t, 0)), x)
    long = torch.randint(0, 50, (300,))
    same(lambda t: tuple(getattr(torch, name)(t, 0)), long)


def test_integer_sums_widen_and_wrap():
    x = torch.full((10,), 2**62)
    same(torch.sum, x)
    same(torch.sum, torch.full((300,), 127, dtype=torch.int8))
    same(lambda t: t.sum(dtype=torch.int8), torch.full((300,), 127, dtype=torch.int8))


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 2.0, 3.0, INF])
def test_gradients_of_distances_are_finite_at_zero_distance(p):
    x = torch.randn(2, 4, 3)
    y = torch.cat([x[:, :2], torch.randn(2, 3, 3)], 1)
    grads = []
    for device in ["cpu", "tpu"]:
        a, b = (t.detach().to(device).requires_grad_() for t in (x, y))
        torch.cdist(a, b, p=p, compute_mode="donot_use_mm_for_euclid_dist").sum().backward()
        grads.append((a.grad.cpu(), b.grad.cpu()))
    for e, g in zip(*grads, strict=True):
        torch.testing.assert_close(g, e, rtol=1e-4, atol=1e-5)


def test_histogramdd_gives_its_list_of_edges() -> None:
    x = torch.randn(50, 2)
    want, want_edges = torch.histogramdd(x, [4, 3])
    got, got_edges = torch.histogramdd(x.to("tpu"), [4, 3])
    torch.testing.assert_close(got.cpu(), want)
    assert len(got_edges) == len(want_edges)
    for a, b in zip(got_edges, want_edges, strict=True):
        torch.testing.assert_close(a.cpu(), b)
