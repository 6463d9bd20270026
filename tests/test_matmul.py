"""Products of matrices and vectors."""

import pytest
import torch
from against_cpu import assert_agrees

import torch_tpu  # noqa: F401

FLOATS = [torch.float32, torch.float64, torch.complex64]


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(len(shape) * 7 + sum(shape))
    if dtype.is_floating_point or dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)
    return torch.randint(-9, 9, shape, generator=generator).to(dtype)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int8, torch.uint8])
def test_products_agree_with_cpu_in_every_type(dtype: torch.dtype) -> None:
    a, b, v = random(3, 4, dtype=dtype), random(4, 5, dtype=dtype), random(4, dtype=dtype)
    assert_agrees(torch.mm, a, b)
    assert_agrees(torch.mv, a, v)
    assert_agrees(torch.dot, v, v)
    assert_agrees(torch.vdot, v, v)
    assert_agrees(torch.addmm, random(5, dtype=dtype), a, b)
    assert_agrees(torch.addr, a, random(3, dtype=dtype), v)
    assert_agrees(torch.bmm, random(2, 3, 4, dtype=dtype), random(2, 4, 5, dtype=dtype))
    for function in (torch.baddbmm, torch.addbmm):
        assert_agrees(
            function,
            random(3, 5, dtype=dtype),
            random(2, 3, 4, dtype=dtype),
            random(2, 4, 5, dtype=dtype),
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_types_are_rounded_once_after_accumulation_in_float32(dtype: torch.dtype) -> None:
    a, b, c = (random(*s, dtype=dtype) for s in ((33, 300), (300, 17), (17,)))
    got = torch.addmm(c.to("tpu"), a.to("tpu"), b.to("tpu"), beta=0.5, alpha=0.25).cpu()
    exact = 0.25 * (a.double() @ b.double()) + 0.5 * c.double()
    error = (got.double() - exact).abs()
    assert bool((error <= torch.finfo(dtype).eps * exact.abs() + 1e-5).all())


@pytest.mark.parametrize("beta", [0, 0.0])
def test_beta_zero_ignores_nan_in_self(beta: float) -> None:
    nan = torch.full((3, 5), torch.nan, device="tpu")
    a, b = random(3, 4), random(4, 5)
    for alpha in (1, 2):
        got = torch.addmm(nan, a.to("tpu"), b.to("tpu"), beta=beta, alpha=alpha)
        torch.testing.assert_close(got.cpu(), alpha * (a @ b))
    batches = a.to("tpu").unsqueeze(0), b.to("tpu").unsqueeze(0)
    torch.testing.assert_close(torch.addbmm(nan, *batches, beta=beta).cpu(), a @ b)
    torch.testing.assert_close(torch.baddbmm(nan, *batches, beta=beta)[0].cpu(), a @ b)


def test_products_over_an_empty_dimension_are_zero() -> None:
    assert_agrees(torch.mm, torch.ones(2, 0), torch.ones(0, 3))
    assert_agrees(torch.addmm, torch.ones(3), torch.ones(2, 0), torch.ones(0, 3))
    assert_agrees(torch.bmm, torch.ones(0, 2, 2), torch.ones(0, 2, 3))


def test_int_mm_accumulates_in_int32() -> None:
    a = torch.full((17, 300), 127, dtype=torch.int8)
    b = torch.full((300, 8), -128, dtype=torch.int8)
    got = torch._int_mm(a.to("tpu"), b.to("tpu")).cpu()
    assert got.dtype == torch.int32
    assert bool((got == 300 * 127 * -128).all())


def test_bilinear_agrees_with_cpu() -> None:
    assert_agrees(
        torch.nn.functional.bilinear, random(6, 3), random(6, 4), random(5, 3, 4), random(5)
    )
