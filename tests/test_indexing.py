"""Indexed reads and writes against the CPU: negative, repeated and out-of-range indices."""

from functools import partial

import pytest
import torch
from against_cpu import assert_agrees

same = partial(assert_agrees, gradients=False)

X = torch.arange(2 * 3 * 4 * 5, dtype=torch.float32).reshape(2, 3, 4, 5)
I = torch.tensor([[0, -1], [2, 1]])  # noqa: E741
J = torch.tensor([1, -2])
FORMS = {
    "first": lambda x, i, j: x[j // 2],
    "second": lambda x, i, j: x[:, i],
    "adjacent": lambda x, i, j: x[:, i, j],
    "apart": lambda x, i, j: x[:, i, :, j],
    "apart_first": lambda x, i, j: x[j, :, i],
    "number_and_tensor": lambda x, i, j: x[1, :, i],
    "none": lambda x, i, j: x[:, None, i],
}


@pytest.mark.parametrize("form", FORMS)
def test_index_tensors_go_where_numpy_puts_them(form):
    same(FORMS[form], X, I, J)


@pytest.mark.parametrize("accumulate", [False, True])
def test_writes_through_index_tensors(accumulate):
    value = torch.randn(2, 2, 5)

    def write(x, i, j, v):
        return torch.ops.aten.index_put(x, [None, i, j], v, accumulate)

    same(write, X, torch.tensor([[0, 1], [2, -1]]), torch.tensor([1, 3]), value)


def test_repeated_indices_accumulate():
    index = torch.tensor([1, 1, 1, -1, 0])
    same(
        lambda x, i: x.index_put((i,), torch.ones((), device=x.device), accumulate=True),
        torch.zeros(4),
        index,
    )
    same(lambda x, i: x.index_add(0, i.abs(), x[:5] * 2, alpha=0.5), torch.randn(6, 3), index)


def test_masks_select_and_assign():
    x = torch.randn(4, 5)
    same(lambda t: t[t > 0], x)
    same(lambda t: t.masked_select(t[0] > 0), x)
    same(lambda t: torch.nonzero(t > 0), x)
    same(lambda t: torch.nonzero_static(t > 0, size=25, fill_value=-7), x)

    def assign(t):
        t = t.clone()
        t[t > 0] = -1
        t[:, 2][t[:, 2] < 0] = torch.arange(
            int((t[:, 2] < 0).sum()), dtype=t.dtype, device=t.device
        )
        return t

    same(assign, x)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_scatter_reduce_with_repeated_indices(reduce, include_self, dtype):
    x = torch.randint(-4, 5, (3, 5)).to(dtype)
    index = torch.tensor([[0, 1, 2, 0], [2, 2, 2, 2]])
    source = torch.randint(-4, 5, (3, 6)).to(dtype)
    same(
        lambda a, i, s: a.scatter_reduce(0, i, s, reduce, include_self=include_self),
        x,
        index,
        source,
    )
    rows = torch.tensor([1, 1, 0, 2])
    if reduce != "sum":
        same(
            lambda a, i, s: a.index_reduce(1, i, s[:, :4], reduce, include_self=include_self),
            x,
            rows,
            source,
        )


def test_an_index_out_of_range_leaves_other_memory_alone():
    x = torch.zeros(4, device="tpu")
    y = torch.ones(4, device="tpu")
    index = torch.tensor([0, 100, -100], device="tpu")
    out = x.index_put((index,), torch.full((3,), 5.0, device="tpu"))
    torch.testing.assert_close(out.cpu(), torch.tensor([5.0, 0, 0, 0]))
    torch.testing.assert_close(y.cpu(), torch.ones(4))
    assert torch.isfinite(y[index].cpu()).all()


@pytest.mark.parametrize("scale", [False, True])
def test_embedding_gradient_skips_the_padding_row(scale):
    grads = []
    for device in ["cpu", "tpu"]:
        weight = torch.linspace(-1, 1, 12).reshape(4, 3).to(device).requires_grad_()
        ids = torch.tensor([[1, 1, 3], [0, 1, 2]], device=device)
        out = torch.nn.functional.embedding(ids, weight, padding_idx=2, scale_grad_by_freq=scale)
        (out * torch.arange(18, device=device).reshape(2, 3, 3)).sum().backward()
        grads.append(weight.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
def test_embedding_bag_and_its_gradient(mode, padding):
    results = []
    for device in ["cpu", "tpu"]:
        weight = torch.linspace(-1, 1, 15).reshape(5, 3).sin().to(device).requires_grad_()
        ids = torch.tensor([4, 1, 0, 0, 2, 1], device=device)
        offsets = torch.tensor([0, 2, 2, 5], device=device)
        out = torch.nn.functional.embedding_bag(
            ids, weight, offsets, mode=mode, padding_idx=padding
        )
        (out * torch.arange(1, 13, device=device).reshape(4, 3)).sum().backward()
        results.append((out.detach().cpu(), weight.grad.cpu()))
    for e, g in zip(*results, strict=True):
        torch.testing.assert_close(g, e)


def test_sizes_that_depend_on_values():
    x = torch.tensor([3, 1, 3, 2, 1, 1])
    same(lambda t: torch.unique(t, return_inverse=True, return_counts=True), x)
    same(lambda t: torch.unique_consecutive(t, return_inverse=True, return_counts=True), x)
    rows = torch.tensor([[1, 2], [0, 5], [1, 2], [0, 4]])
    same(lambda t: torch.unique(t, dim=0, return_inverse=True, return_counts=True), rows)
    same(lambda t: torch.repeat_interleave(t), torch.tensor([2, 0, 3, 1]))
    same(lambda t: torch.bincount(t, minlength=2), x)
    same(lambda t: torch.bincount(t, weights=t.double() / 2), x)


@pytest.mark.parametrize("bins", [1, 7])
def test_histograms_count_the_upper_edge(bins):
    x = torch.tensor([0.0, 1.0, 1.0, 0.5, 0.25, -3.0, 8.0])
    same(lambda t: torch.histc(t, bins, 0, 1), x)
    same(lambda t: torch.histc(t, bins), x)
    same(lambda t: tuple(torch.histogram(t, bins, range=(0.0, 1.0))), x)


def test_a_half_histogram_rounds_positions_as_the_cpu_does():
    x = torch.linspace(-3, 3, 200, dtype=torch.float16)
    for bins in (10, 37):
        same(lambda t, n=bins: torch.histc(t, n), x)
        same(lambda t, n=bins: torch.histc(t, n, -2, 2.5), x)
