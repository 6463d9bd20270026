"""Operators on lists of tensors, as the optimizers use them."""

import pytest
import torch

import torch_tpu  # noqa: F401


def lists(*dtypes: torch.dtype) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [(torch.rand(2, 3) * 9 + 1).to(d) for d in dtypes]


def on_device(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [t.to("tpu") for t in tensors]


def check(actual: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e)


MIXED = (torch.float32, torch.int64, torch.bfloat16)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "pow"])
def test_every_element_has_its_own_result_type(name):
    f = getattr(torch, "_foreach_" + name)
    x, y = lists(*MIXED), lists(torch.int64, torch.int64, torch.float32)
    check(f(on_device(x), on_device(y)), f(x, y))
    check(f(on_device(x), 2), f(x, 2))
    check(f(on_device(x), [1, 2, 3]), f(x, [1, 2, 3]))


@pytest.mark.parametrize("name", ["exp", "sqrt", "neg", "abs", "reciprocal", "erf"])
def test_unary_functions_apply_to_every_element(name):
    f = getattr(torch, "_foreach_" + name)
    x = lists(torch.float32, torch.bfloat16)
    check(f(on_device(x)), f(x))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_scaled_products_take_a_number_a_list_or_a_tensor(name):
    f = getattr(torch, "_foreach_" + name)
    x, y, z = (lists(torch.float32, torch.bfloat16) for _ in range(3))
    for factor in (0.5, [0.5, -2.0], torch.tensor([0.5, -2.0])):
        check(f(on_device(x), on_device(y), on_device(z), factor), f(x, y, z, factor))


@pytest.mark.parametrize("order", [0, 1, 2, 3, float("inf")])
def test_norms_of_lists(order):
    x = lists(torch.float32, torch.float32)
    check(torch._foreach_norm(on_device(x), order), torch._foreach_norm(x, order))


def test_in_place_forms_write_to_their_tensors():
    x = lists(torch.float32, torch.bfloat16)
    y = on_device(x)
    torch._foreach_mul_(y, 3)
    torch._foreach_lerp_(y, on_device(x), 0.25)
    torch._foreach_mul_(x, 3)
    torch._foreach_lerp_(x, [t / 3 for t in x], 0.25)
    for a, e in zip(y, x, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=2e-2, atol=1e-5)


def test_versions_of_listed_tensors_move_on_when_the_call_succeeds_and_only_then():
    xs = [torch.ones(2, device="tpu"), torch.ones(3, device="tpu")]
    for _ in range(2):  # a miss, then a hit
        before = [x._version for x in xs]
        torch._foreach_add_(xs, 1)
        assert [x._version for x in xs] == [v + 1 for v in before]
    before = [x._version for x in xs]
    with pytest.raises(RuntimeError):
        torch._foreach_add_(xs, [torch.ones(2, device="tpu"), torch.ones(4, device="tpu")])
    assert [x._version for x in xs] == before
