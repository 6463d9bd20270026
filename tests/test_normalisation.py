"""Batch, layer, group, RMS and weight normalisation."""

import pytest
import torch
from against_cpu import assert_agrees
from torch.nn import functional as nf

import torch_tpu  # noqa: F401

CLOSE = {"rtol": 1e-5, "atol": 2e-5}


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_agrees_with_cpu(affine: bool, training: bool) -> None:
    mean, variance = torch.randn(3), torch.rand(3) + 0.5

    def batch_norm(x: torch.Tensor, *parameters: torch.Tensor) -> tuple[torch.Tensor, ...]:
        running = mean.to(x.device, copy=True), variance.to(x.device, copy=True)
        y = nf.batch_norm(x, *running, *parameters, training=training, momentum=0.3)
        return y, *running

    parameters = (torch.randn(3), torch.randn(3)) if affine else ()
    assert_agrees(batch_norm, torch.randn(4, 3, 5, 2), *parameters, **CLOSE)


def test_batch_norm_module_trains_as_on_cpu() -> None:
    torch.manual_seed(0)
    modules = [torch.nn.BatchNorm2d(3, momentum=m) for m in (0.1, None)]
    for module in modules:
        twin = torch.nn.BatchNorm2d(3, momentum=module.momentum).to("tpu")
        for _ in range(3):
            x = torch.randn(4, 3, 5, 5)
            torch.testing.assert_close(twin(x.to("tpu")).cpu(), module(x), **CLOSE)
        for name, value in module.state_dict().items():
            torch.testing.assert_close(twin.state_dict()[name].cpu(), value, **CLOSE)
        module.eval(), twin.eval()
        torch.testing.assert_close(twin(x.to("tpu")).cpu(), module(x), **CLOSE)


def test_variance_is_stable_for_a_large_mean() -> None:
    x = torch.randn(64, 8) + 1e4
    assert_agrees(lambda x: nf.layer_norm(x, (8,)), x, gradients=False, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(
        nf.layer_norm(x.to("tpu"), (8,)).cpu().double(),
        nf.layer_norm(x.double(), (8,)),
        rtol=5e-3,
        atol=5e-3,
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_layer_norm_agrees_with_cpu(dtype: torch.dtype) -> None:
    x, weight, bias = (torch.randn(s).to(dtype) for s in ((4, 5, 6), (5, 6), (5, 6)))
    close = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else CLOSE
    assert_agrees(lambda x, w, b: nf.layer_norm(x, (5, 6), w, b), x, weight, bias, **close)
    assert_agrees(lambda x: nf.layer_norm(x, (6,)), x, **close)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_agrees_with_cpu(groups: int) -> None:
    assert_agrees(
        lambda x, w, b: nf.group_norm(x, groups, w, b),
        torch.randn(3, 6, 4, 4),
        torch.randn(6),
        torch.randn(6),
        **CLOSE,
    )


def test_rms_and_instance_norm_agree_with_cpu() -> None:
    assert_agrees(lambda x, w: nf.rms_norm(x, (6,), w), torch.randn(3, 6), torch.randn(6), **CLOSE)
    assert_agrees(nf.instance_norm, torch.randn(3, 6, 5), **CLOSE)


@pytest.mark.parametrize("dim", [0, 2])
def test_weight_norm_agrees_with_cpu(dim: int) -> None:
    v = torch.randn(3, 4, 5)
    shape = [1, 1, 1]
    shape[dim] = v.shape[dim]
    assert_agrees(lambda v, g: torch._weight_norm(v, g, dim), v, torch.rand(shape), **CLOSE)


@pytest.mark.parametrize("p", [0.5, 1, 2, 3, torch.inf])
def test_renorm_agrees_with_cpu(p: float) -> None:
    x = torch.randn(4, 5, 3) * torch.tensor([0.1, 1, 10]).reshape(1, 1, 3)
    assert_agrees(lambda x: torch.renorm(x, p, 2, 1.5), x, gradients=False, **CLOSE)


def test_normalisation_of_nothing_keeps_shapes() -> None:
    assert_agrees(lambda x: nf.layer_norm(x, (4,)), torch.randn(0, 4))
    assert_agrees(lambda x: nf.group_norm(x, 2), torch.randn(0, 4, 3))


ATEN = torch.ops.aten
HALF = torch.bfloat16


@pytest.mark.parametrize("parameters", [None, HALF, torch.float32])
@pytest.mark.parametrize("running", [HALF, torch.float32])
@pytest.mark.parametrize("training", [True, False])
def test_statistics_of_half_inputs_have_the_types_and_sizes_of_the_cpu(
    parameters: torch.dtype | None, running: torch.dtype, training: bool
) -> None:
    x = torch.randn(4, 6, 5).to(HALF)

    def metadata(device: str) -> list[list[tuple[torch.dtype, torch.Size]] | str]:
        y = x.to(device)

        def affine(n: int) -> tuple[torch.Tensor | None, ...]:
            if parameters is None:
                return None, None
            return torch.ones(n, dtype=parameters, device=device), None

        stats = [torch.ones(6, dtype=running, device=device) for _ in range(2)]
        batch = (y, *affine(6), *stats, training, 0.1, 1e-5)
        calls = [
            lambda: ATEN.native_layer_norm(y, [5], *affine(5), 1e-5),
            lambda: ATEN.native_group_norm(y, *affine(6), 4, 6, 5, 2, 1e-5),
            lambda: ATEN.native_batch_norm(*batch),
            lambda: ATEN._native_batch_norm_legit(*batch),
            lambda: ATEN._native_batch_norm_legit_functional(*batch),
            lambda: ATEN._native_batch_norm_legit_no_training(
                y, *affine(6), *stats, momentum=0.1, eps=1e-5
            ),
            lambda: ATEN.batch_norm_update_stats(y, *stats, 0.1),
        ]
        return [[(t.dtype, t.shape) for t in call()] for call in calls]

    if {parameters, running} == {HALF, torch.float32}:
        pytest.skip("the CPU wants parameters and running statistics of one type")
    assert metadata("tpu") == metadata("cpu")


@pytest.mark.parametrize("affine", [HALF, torch.float32])
def test_half_layer_norm_trains_compiled_as_eagerly(affine: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(6, 8).to(HALF).to("tpu")
    module = torch.nn.LayerNorm(8).to(affine).to("tpu")
    torch.nn.init.uniform_(module.weight)
    gradients = []
    for function in (module, torch.compile(module, fullgraph=True)):
        module.zero_grad()
        y = x.clone().requires_grad_()
        function(y).float().pow(2).sum().backward()
        gradients.append([y.grad, module.weight.grad.clone(), module.bias.grad.clone()])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)
