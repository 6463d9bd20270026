"""Sorting, selection and search against the CPU: NaN, signed zeros, ties."""

from functools import partial

import pytest
import torch
from against_cpu import assert_agrees

NAN = float("nan")

same = partial(assert_agrees, gradients=False)

SPECIAL = torch.tensor(
    [[2.0, NAN, -0.0, 0.0, -1.0, NAN], [0.0, -0.0, 5.0, float("inf"), -3.0, 5.0]]
)
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.uint8, torch.int64]


@pytest.mark.parametrize("descending", [False, True])
def test_sort_is_stable_with_nan_last_and_zeros_equal(descending):
    same(lambda t: tuple(torch.sort(t, dim=1, descending=descending, stable=True)), SPECIAL)
    same(lambda t: tuple(torch.sort(t, dim=0, descending=descending, stable=True)), SPECIAL)
    same(lambda t: torch.argsort(t, dim=-1, descending=descending, stable=True), SPECIAL)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool])
def test_sort_of_every_type(dtype):
    x = torch.randint(0, 2 if dtype == torch.bool else 100, (3, 40)).to(dtype)
    same(lambda t: tuple(torch.sort(t, stable=True)), x)


@pytest.mark.parametrize("largest", [True, False])
def test_topk_takes_nan_as_the_greatest(largest):
    same(lambda t: torch.topk(t, 4, largest=largest).values, SPECIAL)
    same(lambda t: torch.topk(t, 0, largest=largest).values, SPECIAL)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("largest", [True, False])
def test_topk_of_every_type(dtype, largest):
    x = torch.stack([torch.randperm(60) for _ in range(2)]).to(dtype)
    same(lambda t: tuple(torch.topk(t, 7, largest=largest)), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_order_statistics_of_every_type(dtype):
    x = torch.stack([torch.randperm(31) - 5 * (dtype != torch.uint8) for _ in range(3)]).to(dtype)
    same(lambda t: tuple(torch.kthvalue(t, 5, dim=1)), x)
    same(lambda t: tuple(torch.median(t, dim=1)), x)
    same(torch.median, x)
    same(lambda t: torch.nanmedian(t, dim=0).values, x)


def test_median_with_and_without_nan():
    same(lambda t: torch.median(t, dim=1).values, SPECIAL)
    same(lambda t: torch.nanmedian(t, dim=1).values, SPECIAL)
    same(torch.nanmedian, torch.full((3,), NAN))


def test_mode_prefers_the_smallest_of_equally_frequent_values():
    x = torch.tensor([[3, 1, 1, 3, 2], [5, 5, 4, 4, 4], [1, 2, 3, 4, 5]])
    same(lambda t: torch.mode(t, 1).values, x)


@pytest.mark.parametrize("right", [False, True])
def test_search_in_sorted_sequences(right):
    edges = torch.tensor([1.0, 2.0, 2.0, 7.0])
    values = torch.tensor([[0.0, 1.0, 2.0], [3.0, 7.0, NAN]])
    same(lambda e, v: torch.searchsorted(e, v, right=right), edges, values)
    same(lambda e, v: torch.bucketize(v, e, right=right, out_int32=True), edges, values)
    rows = torch.arange(12.0).reshape(2, 6)
    same(lambda e, v: torch.searchsorted(e, v, right=right), rows, values)
    same(lambda e: torch.searchsorted(e, 2, right=right), edges)


@pytest.mark.parametrize("tests", [3, 500])
def test_membership_by_pairs_and_by_search(tests):
    x = torch.randint(0, 1000, (40, 7))
    t = torch.randint(0, 1000, (tests,))
    same(torch.isin, x, t)
    same(lambda a, b: torch.isin(a, b, invert=True), x, t)
