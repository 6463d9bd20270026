"""LSTM and GRU: products and fused cells."""

import pytest
import torch
from against_cpu import assert_agrees

import torch_tpu  # noqa: F401


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_layers_and_their_gradients_agree_with_cpu(kind: type, bias: bool) -> None:
    torch.manual_seed(0)
    module = kind(5, 6, num_layers=2, bias=bias, bidirectional=True)
    names = [name for name, _ in module.named_parameters()]

    def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        values = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(module.to(x.device), values, (x,))[0]

    assert_agrees(run, torch.randn(4, 3, 5), *module.parameters(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", [torch.nn.LSTMCell, torch.nn.GRUCell])
def test_cells_agree_with_cpu(kind: type) -> None:
    torch.manual_seed(0)
    cell = kind(5, 6)
    want = cell(torch.ones(3, 5))
    got = cell.to("tpu")(torch.ones(3, 5, device="tpu"))
    pairs = zip(got, want, strict=True) if isinstance(want, tuple) else [(got, want)]
    for a, b in pairs:
        torch.testing.assert_close(a.cpu(), b)
