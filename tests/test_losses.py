"""Losses and their gradients against the CPU."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import torch_tpu  # noqa: F401

REDUCTIONS = ["none", "mean", "sum"]


def check(loss: Callable[..., torch.Tensor], x: torch.Tensor, *others: torch.Tensor) -> None:
    results = []
    for device in ("cpu", "tpu"):
        leaf = x.detach().to(device).requires_grad_()
        value = loss(leaf, *(o.to(device) for o in others))
        value.sum().backward()
        results.append((value.detach().cpu(), leaf.grad.cpu()))
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    "loss",
    [
        F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss,
        F.soft_margin_loss, F.binary_cross_entropy_with_logits,
    ],
)  # fmt: skip
def test_elementwise_losses_and_gradients(loss, reduction):
    target = (torch.rand(4, 3) > 0.5).float()
    check(lambda x, t: loss(x, t, reduction=reduction), torch.randn(4, 3) * 2, target)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(5, 4), (2, 4, 3, 3), (4,)])
def test_cross_entropy_with_weights_and_an_ignored_class(shape, reduction):
    target = torch.randint(0, 4, shape[:1] + shape[2:] if len(shape) > 1 else ())
    if target.dim():
        target.view(-1)[0] = -100
    weight = torch.rand(4) + 0.5
    check(
        lambda x, t, w: F.nll_loss(F.log_softmax(x, int(x.dim() > 1)), t, w, reduction=reduction),
        torch.randn(shape), target, weight,
    )  # fmt: skip


def test_a_mean_over_ignored_targets_only_is_nan():
    x = torch.randn(2, 3, device="tpu")
    assert F.nll_loss(x, torch.full((2,), -100, device="tpu")).isnan().item()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy_is_finite_at_certain_wrong_predictions(reduction):
    x = torch.tensor([0.0, 1.0, 0.3, 0.9])
    check(
        lambda x, t: F.binary_cross_entropy(x, t, reduction=reduction),
        x,
        torch.tensor([1.0, 0.0, 1.0, 0.0]),
    )


@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss(p):
    check(
        lambda x, t: F.multi_margin_loss(x, t, p=p), torch.randn(4, 5), torch.tensor([0, 3, 4, 1])
    )


def test_multilabel_margin_loss_stops_at_the_first_negative_target():
    target = torch.tensor([[1, 3, -1, 0], [2, -1, 1, 1], [0, 1, 2, 3]])
    check(F.multilabel_margin_loss, torch.randn(3, 4), target)


@pytest.mark.parametrize("concatenated", [False, True])
def test_ctc_loss_of_samples_of_different_lengths(concatenated):
    lengths, targets = [12, 9, 5], [4, 2, 5]
    padded = torch.randint(1, 6, (3, 5))
    flat = torch.cat([padded[i, :n] for i, n in enumerate(targets)])
    check(
        lambda x, t: F.ctc_loss(
            x.log_softmax(2), t, lengths, targets, reduction="none", zero_infinity=True
        ),
        torch.randn(12, 3, 6), flat if concatenated else padded,
    )  # fmt: skip
