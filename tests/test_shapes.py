"""Shape operators and factories against the CPU."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from against_cpu import assert_agrees

same = partial(assert_agrees, gradients=False)

X = torch.arange(2 * 3 * 4 * 6, dtype=torch.float32).reshape(2, 3, 4, 6)


def test_cat_skips_empty_vectors_and_promotes():
    same(
        lambda a, b: torch.cat([a, b, torch.empty(0, device=a.device)]),
        torch.ones(2, 3),
        torch.ones(1, 3, dtype=torch.int64),
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate"])
@pytest.mark.parametrize("padding", [(1, 2), (3, 0), (0, 0)])
@pytest.mark.parametrize("dims", [1, 2])
def test_padding_and_its_gradient(mode, padding, dims):
    results = []
    for device in ["cpu", "tpu"]:
        x = X.detach().clone().to(device).requires_grad_()
        source = x if dims == 2 else x[0]
        y = F.pad(source, padding * dims, mode=mode)
        (y * torch.linspace(0, 1, y.numel(), device=device).reshape(y.shape)).sum().backward()
        results.append((y.detach().cpu(), x.grad.cpu()))
    for e, g in zip(*results, strict=True):
        torch.testing.assert_close(g, e)


def test_constant_padding_crops_where_it_is_negative():
    same(lambda t: F.pad(t, (-1, 2, 1, -2), value=7), X)


@pytest.mark.parametrize("offset", [-9, -2, 0, 1, 3, 9])
def test_triangles_and_diagonals(offset):
    same(lambda t: t.tril(offset), X)
    same(lambda t: t.triu(offset), X)
    same(lambda t: torch.diag_embed(t, offset, 0, -1), X)
    if -4 <= offset <= 4:
        same(lambda t: torch.diagonal_scatter(t, t.diagonal(offset, 1, 3) * 2, offset, 1, 3), X)
    for f in (torch.tril_indices, torch.triu_indices):
        torch.testing.assert_close(f(4, 6, offset, device="tpu").cpu(), f(4, 6, offset))


def test_rolls_flips_and_turns():
    same(lambda t: t.roll((1, -7), (0, 3)), X)
    same(lambda t: t.roll(5), X)
    same(lambda t: t.flip(0, -1), X)
    for k in range(-1, 5):
        same(lambda t: torch.rot90(t, k, (1, 3)), X)  # noqa: B023


def test_repeats_and_shuffles():
    same(lambda t: t.repeat(2, 1, 3, 1, 2), X)
    same(lambda t: t.repeat(0, 1, 1, 1), X)
    same(lambda t: F.pixel_unshuffle(t, 2), X)
    same(lambda t: F.pixel_shuffle(F.pixel_unshuffle(t, 2), 2), X)
    same(lambda t: F.channel_shuffle(t, 3), X)


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_unfold_and_fold(stride):
    same(lambda t: F.unfold(t, (2, 3), dilation=1, padding=1, stride=stride), X)
    columns = F.unfold(X, (2, 3), padding=1, stride=stride)
    same(lambda t: F.fold(t, (4, 6), (2, 3), padding=1, stride=stride), columns)
    same(lambda t: torch.ops.aten.unfold_copy(t, 3, 2, stride), X)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_scatters_into_slices(step):
    same(lambda t: torch.slice_scatter(t, t[:, :, :, 1:6:step] * -1, 3, 1, 6, step), X)
    same(lambda t: torch.select_scatter(t, t[:, 0], 1, -1), X)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_ranges(dtype):
    for arguments in [(7,), (2, 9), (0, 1, 0.1), (5, -5, -0.75), (3, 3)]:
        if dtype == torch.int64 and any(isinstance(a, float) for a in arguments):
            continue
        e = torch.arange(*arguments, dtype=dtype)
        torch.testing.assert_close(torch.arange(*arguments, dtype=dtype, device="tpu").cpu(), e)
    for steps in [0, 1, 2, 11]:
        e = torch.linspace(-3, 8, steps, dtype=dtype)
        torch.testing.assert_close(torch.linspace(-3, 8, steps, dtype=dtype, device="tpu").cpu(), e)


def test_float32_ranges_do_not_drift():
    e = torch.arange(0, 1000, 0.1)
    torch.testing.assert_close(
        torch.arange(0, 1000, 0.1, device="tpu").cpu(), e, rtol=1.2e-7, atol=0
    )


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (3, 5), (5, 3)])
def test_eye(shape):
    for dtype in [torch.bool, torch.float16, torch.complex64]:
        e = torch.eye(*shape, dtype=dtype)
        assert torch.equal(torch.eye(*shape, dtype=dtype, device="tpu").cpu(), e)


def test_ranges_of_other_bounds_never_share_a_size() -> None:
    for bounds in [
        (-0.5, 0.5, 0.5),
        (-1.0, 0.5, 0.5),
        (0, 5, 1),
        (2, 5, 1),
        (5, 0, -2),
        (1, 0, -2),
    ]:
        got = torch.arange(*bounds, device="tpu").cpu()
        torch.testing.assert_close(got, torch.arange(*bounds), rtol=0, atol=0)
