"""Elementwise operators against the CPU where PyTorch's semantics are particular."""

import itertools
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torch_tpu  # noqa: F401

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e30, float("inf"), -float("inf"), float("nan")]


def same(f: Callable[..., torch.Tensor], *args: object) -> None:
    """The function gives on the device what it gives on the CPU."""

    def moved(x: object) -> object:
        return x.to("tpu") if isinstance(x, torch.Tensor) else x

    expected = f(*args)
    actual = f(*(moved(x) for x in args))
    torch.testing.assert_close(actual.cpu(), expected, equal_nan=True)


def edge_pairs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = torch.tensor(list(itertools.product(EDGES, EDGES)), dtype=dtype)
    return pairs[:, 0].contiguous(), pairs[:, 1].contiguous()


@pytest.mark.parametrize(
    "name",
    ["floor_divide", "remainder", "fmod", "maximum", "minimum", "fmax", "fmin", "atan2", "hypot"],
)
def test_binary_operators_agree_on_infinities_nan_and_zeros(name):
    same(getattr(torch, name), *edge_pairs())


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.bfloat16])
def test_division_rounds_as_asked_for_both_signs(mode, dtype):
    x = torch.tensor([7, -7, 7, -7, 6, -6, 0], dtype=dtype)
    y = torch.tensor([2, 2, -2, -2, 3, 3, -5], dtype=dtype)
    same(lambda a, b: torch.div(a, b, rounding_mode=mode), x, y)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_half_quotient_is_rounded_before_it_is_truncated_except_by_a_number(dtype):
    x = torch.linspace(-40, 40, 501, dtype=dtype)
    y = torch.linspace(0.1, 3, 501, dtype=dtype)
    same(lambda a, b: torch.div(a, b, rounding_mode="trunc"), x, y)
    same(lambda a: torch.div(a, 0.3, rounding_mode="trunc"), x)


@given(
    st.lists(st.integers(-(10**6), 10**6).map(lambda i: i / 8), min_size=1, max_size=8),
    st.floats(0.001, 50),
    st.sampled_from([1, -1]),
)
@settings(max_examples=25, deadline=None)
def test_floor_division_by_a_number_is_exact(values, size, sign):
    divisor = size * sign
    x = torch.tensor(values)
    assert torch.equal((x.to("tpu") // divisor).cpu(), x // divisor)


def test_true_division_by_a_number_is_correctly_rounded():
    x = torch.arange(1, 4097, dtype=torch.float32)
    assert torch.equal((x.to("tpu") / 3).cpu(), x / 3)


def test_division_of_integers_gives_the_default_float_type():
    x = torch.arange(-4, 5)
    same(lambda a: a / 3, x)
    assert (x.to("tpu") / 3).dtype == torch.float32


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 0.5, -0.5, -1, -2, 2.5, 7])
def test_powers_with_constant_exponents_agree(exponent):
    same(lambda a: a**exponent, torch.tensor([0.25, 1.0, 3.5, 9.0]))


def test_integer_powers_wrap_around():
    same(torch.pow, torch.tensor([2, -3, 10, 0]), torch.tensor([62, 41, 25, 0]))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_shifts_beyond_the_width_empty_the_value(dtype):
    x = torch.tensor([1, 100, 3, 7], dtype=dtype)
    amount = torch.tensor([0, 3, 63, 100], dtype=dtype)
    same(torch.bitwise_left_shift, x, amount)
    same(torch.bitwise_right_shift, x, amount)


def test_clamp_lets_nan_through_and_the_upper_bound_win():
    x = torch.tensor([float("nan"), -3.0, 0.5, 8.0])
    same(lambda a: a.clamp(-1, 1), x)
    same(lambda a: a.clamp(2, 1), x)


def test_sign_of_nan_and_negative_zero_is_zero():
    same(torch.sign, torch.tensor([float("nan"), -0.0, -2.0, 3.0]))


def test_lerp_is_exact_at_both_ends():
    start, end = torch.tensor([0.1, 1e8]), torch.tensor([0.7, 3.0])
    for weight in (0.0, 1.0):
        same(lambda a, b, w=weight: torch.lerp(a, b, w), start, end)


def test_gcd_and_lcm_of_mixed_signs_and_zeros():
    x = torch.tensor([12, -18, 0, 7, 0])
    y = torch.tensor([18, 12, 5, 0, 0])
    same(torch.gcd, x, y)
    same(torch.lcm, x, y)


def test_conversions_of_floats_to_narrow_integers_wrap():
    same(
        lambda a: torch.zeros(3, dtype=torch.uint8, device=a.device).copy_(a),
        torch.tensor([300.0, -1.0, 7.9]),
    )


def test_masked_fill_keeps_the_type_of_the_tensor():
    x = torch.arange(4)
    mask = torch.tensor([True, False, True, False])
    same(lambda a, m: a.masked_fill(m, 7), x, mask)


def test_comparisons_with_fractions_promote_integers():
    same(lambda a: a < 1.5, torch.arange(4))


def test_nan_to_num_uses_the_limits_of_half_types():
    x = torch.tensor([float("inf"), -float("inf"), float("nan"), 2.0], dtype=torch.float16)
    same(torch.nan_to_num, x)


def test_the_gradient_of_a_sign_is_zero_without_the_cpu():
    torch.tpu.reset_fallback_report()
    x = torch.randn(5, device="tpu", requires_grad=True)
    torch.sgn(x).sum().backward()
    assert x.grad.tolist() == [0.0] * 5
    x.grad.add_(1)
    assert torch.tpu.fallback_report() == {}
