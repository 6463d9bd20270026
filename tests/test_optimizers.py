"""Optimizer steps, fused and foreach, against the CPU."""

import pytest
import torch

import torch_tpu  # noqa: F401

CASES = {
    "adam": (torch.optim.Adam, {"lr": 1e-2, "weight_decay": 0.1}),
    "amsgrad": (torch.optim.Adam, {"lr": 1e-2, "amsgrad": True}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-2, "maximize": True}),
    "sgd": (torch.optim.SGD, {"lr": 0.1}),
    "nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    "dampened": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.3}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.01, "weight_decay": 0.1}),
}


def trained(case: str, device: str, steps: int = 3, **options: bool) -> list[torch.Tensor]:
    cls, arguments = CASES[case]
    generator = torch.Generator().manual_seed(0)
    params = [
        torch.randn(s, generator=generator).to(device).requires_grad_() for s in ((3, 4), (5,))
    ]
    optimizer = cls(params, **arguments, **options)
    for _ in range(steps):
        for p in params:
            p.grad = torch.randn(p.shape, generator=generator).to(device)
        optimizer.step()
    return [p.detach().cpu() for p in params]


@pytest.mark.parametrize("form", ["fused", "foreach"])
@pytest.mark.parametrize("case", CASES)
def test_steps_give_the_parameters_of_the_cpu(case, form):
    expected = trained(case, "cpu", foreach=False)
    for actual, e in zip(trained(case, "tpu", **{form: True}), expected, strict=True):
        torch.testing.assert_close(actual, e)


def test_a_learning_rate_may_be_a_tensor():
    p = torch.ones(3, device="tpu", requires_grad=True)
    optimizer = torch.optim.AdamW([p], lr=torch.tensor(0.5), fused=True, weight_decay=0.0)
    p.grad = torch.ones(3, device="tpu")
    optimizer.step()
    torch.testing.assert_close(p.detach().cpu(), torch.full((3,), 0.5))


def test_found_inf_leaves_everything_as_it_was():
    params, grads, averages, squares = (
        [torch.full((2,), v, device="tpu")] for v in (1.0, 2.0, 3.0, 4.0)
    )
    torch._fused_adam_(
        params, grads, averages, squares, [], [torch.ones((), device="tpu")], lr=0.1, beta1=0.9,
        beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False,
        grad_scale=torch.full((1,), 2.0, device="tpu"), found_inf=torch.ones(1, device="tpu"),
    )  # fmt: skip
    assert [t[0].tolist() for t in (params, grads, averages, squares)] == [
        [1.0, 1.0], [2.0, 2.0], [3.0, 3.0], [4.0, 4.0],
    ]  # fmt: skip


def test_the_scale_shrinks_on_infinity_and_grows_after_the_interval():
    scale = torch.full((), 8.0, device="tpu")
    tracker = torch.zeros((), dtype=torch.int32, device="tpu")
    fine, bad = torch.zeros((), device="tpu"), torch.ones((), device="tpu")
    seen = []
    for found in (fine, fine, bad, fine):
        torch._amp_update_scale_(scale, tracker, found, 2.0, 0.5, 2)
        seen.append((scale.item(), tracker.item()))
    assert seen == [(8.0, 1), (16.0, 0), (8.0, 0), (8.0, 1)]


def test_unscaling_reports_gradients_that_are_not_finite():
    grads = [torch.tensor([2.0, 4.0], device="tpu"), torch.tensor([float("inf")], device="tpu")]
    found = torch.zeros(1, device="tpu")
    torch._amp_foreach_non_finite_check_and_unscale_(
        grads[:1], found, torch.tensor([0.5], device="tpu")
    )
    assert grads[0].tolist() == [1.0, 2.0]
    assert found.item() == 0
    torch._amp_foreach_non_finite_check_and_unscale_(
        grads, found, torch.tensor([1.0], device="tpu")
    )
    assert found.item() == 1
