"""Pooling, its indices and its gradients."""

import pytest
import torch
from against_cpu import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as nf

import torch_tpu  # noqa: F401


@st.composite
def windows(draw: st.DrawFn) -> dict:
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    return {
        "kernel_size": kernel,
        "stride": draw(st.tuples(st.integers(1, 3), st.integers(1, 3))),
        "padding": tuple(draw(st.integers(0, k // 2)) for k in kernel),
        "ceil_mode": draw(st.booleans()),
    }


@settings(max_examples=15, deadline=None)
@given(windows(), st.integers(1, 2), st.integers(7, 9))
def test_max_pool_agrees_with_cpu(window: dict, dilation: int, size: int) -> None:
    assert_agrees(
        lambda x: nf.max_pool2d(x, **window, dilation=dilation, return_indices=True),
        torch.randn(2, 3, size, size + 1),
    )


@settings(max_examples=15, deadline=None)
@given(windows(), st.booleans(), st.sampled_from([None, 3]), st.integers(5, 9))
def test_avg_pool_agrees_with_cpu(
    window: dict, count_include_pad: bool, divisor: int | None, size: int
) -> None:
    assert_agrees(
        lambda x: nf.avg_pool2d(
            x, **window, count_include_pad=count_include_pad, divisor_override=divisor
        ),
        torch.randn(2, 3, size, size + 1),
    )


@pytest.mark.parametrize("output", [(1, 1), (3, 2), (7, 5), (9, 11)])
def test_adaptive_pooling_agrees_with_cpu(output: tuple[int, int]) -> None:
    x = torch.randn(2, 3, 7, 10)
    assert_agrees(lambda x: nf.adaptive_avg_pool2d(x, output), x)
    assert_agrees(lambda x: nf.adaptive_max_pool2d(x, output, return_indices=True), x)


def test_three_dimensional_pooling_agrees_with_cpu() -> None:
    x = torch.randn(2, 2, 6, 7, 8)
    assert_agrees(lambda x: nf.max_pool3d(x, 3, 2, padding=1, return_indices=True), x)
    assert_agrees(lambda x: nf.avg_pool3d(x, 3, 2, padding=1, ceil_mode=True), x)
    assert_agrees(lambda x: nf.adaptive_avg_pool3d(x, (2, 3, 5)), x)
    assert_agrees(lambda x: nf.adaptive_max_pool3d(x, (2, 3, 5)), x)


def test_windows_longer_than_the_unrolled_form_agree_with_cpu() -> None:
    assert_agrees(
        lambda x: nf.max_pool2d(x, (20, 3), stride=2, padding=(9, 1), return_indices=True),
        torch.randn(1, 2, 40, 9),
    )


def test_max_pool_reports_the_first_of_equal_elements_and_the_last_nan() -> None:
    x = torch.tensor([1.0, 1.0, -torch.inf, -torch.inf, torch.nan, 2.0, torch.nan, torch.nan])
    for padding in (0, 1):
        assert_agrees(
            lambda x, p=padding: nf.max_pool1d(x, 2, padding=p, return_indices=True),
            x.reshape(1, 1, 8),
            gradients=False,
        )


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.int16])
def test_max_pool_of_integers_agrees_with_cpu(dtype: torch.dtype) -> None:
    x = torch.randint(0, 200, (2, 2, 6, 6)).to(dtype)
    assert_agrees(lambda x: nf.max_pool2d(x, 3, 2, padding=1), x)


@pytest.mark.parametrize("n", [2, 3])
def test_fractional_max_pool_agrees_with_cpu(n: int) -> None:
    x = torch.randn(2, 3, *([9] * n))
    samples = torch.rand(2, 3, n)
    operator = (nf.fractional_max_pool2d, nf.fractional_max_pool3d)[n - 2]
    assert_agrees(
        lambda x, s: operator(
            x, 2, output_size=[4] * n, return_indices=True, _random_samples=s.detach()
        ),
        x,
        samples,
    )


def test_max_unpool_undoes_max_pool() -> None:
    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        values, indices = nf.max_pool2d(x, 2, return_indices=True)
        return nf.max_unpool2d(values, indices, 2)

    assert_agrees(there_and_back, torch.randn(2, 3, 6, 8))
