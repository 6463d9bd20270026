"""torch.compile on the device: one program per graph, the CPU's numbers."""

import copy
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from torch_tpu import _compile


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()
    torch.manual_seed(0)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def _pair(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    return module, copy.deepcopy(module).to("tpu")


def test_forward_and_backward_agree_with_the_cpu() -> None:
    cpu, dev = _pair(_mlp())
    x = torch.randn(5, 8)
    compiled = torch.compile(dev, backend="tpu", fullgraph=True)
    expected, got = cpu(x), compiled(x.to("tpu"))
    torch.testing.assert_close(got.cpu(), expected, rtol=1e-5, atol=1e-5)
    expected.pow(2).sum().backward()
    got.pow(2).sum().backward()
    for a, b in zip(cpu.parameters(), dev.parameters(), strict=True):
        torch.testing.assert_close(b.grad.cpu(), a.grad, rtol=1e-4, atol=1e-5)


def test_a_graph_is_one_program() -> None:
    before = set(_compile.programs())
    compiled = torch.compile(lambda x: (x.sin() * 2 + 1).softmax(-1).sum(), backend="tpu")
    x = torch.randn(4, 4, device="tpu")
    first = compiled(x)
    second = compiled(x)
    assert torch.equal(first, second)
    new = [name for name in _compile.programs() if name not in before]
    assert len(new) == 1
    (text,) = _compile.programs()[new[0]]
    assert text.startswith("module")
    assert "stablehlo.sine" in text


def test_no_backend_named_means_the_device_for_its_models() -> None:
    _, dev = _pair(_mlp())
    before = len(_compile.programs())
    compiled = torch.compile(dev)
    with torch.no_grad():
        compiled(torch.randn(2, 8, device="tpu"))
    assert len(_compile.programs()) == before + 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_inference_modes(mode: type) -> None:
    cpu, dev = _pair(_mlp().eval())
    x = torch.randn(3, 8)
    with mode():
        got = torch.compile(dev, backend="tpu")(x.to("tpu"))
        torch.testing.assert_close(got.cpu(), cpu(x), rtol=1e-5, atol=1e-5)


def test_mutated_inputs_and_buffers_are_written() -> None:
    cpu, dev = _pair(nn.BatchNorm2d(3))
    x = torch.randn(2, 3, 4, 4)
    compiled = torch.compile(dev, backend="tpu")
    torch.testing.assert_close(compiled(x.to("tpu")).cpu(), cpu(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(dev.running_mean.cpu(), cpu.running_mean)

    def step(state: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        state.add_(y)
        return state * 2

    state = torch.zeros(3, device="tpu")
    with torch.no_grad():
        out = torch.compile(step, backend="tpu")(state, torch.ones(3, device="tpu"))
    assert state.cpu().tolist() == [1.0, 1.0, 1.0]
    assert out.cpu().tolist() == [2.0, 2.0, 2.0]


def test_other_shapes_and_zero_dim_cpu_inputs() -> None:
    compiled = torch.compile(lambda x, s: x * s + 1, backend="tpu")
    for n in (2, 3, 7):
        for s in (2.0, 3.0):
            got = compiled(torch.ones(n, device="tpu"), torch.tensor(s))
            assert got.cpu().tolist() == [s + 1] * n


def test_dropout_draws_the_bits_of_eager() -> None:
    drop = nn.Dropout(0.5)
    x = torch.ones(64, device="tpu")
    torch.manual_seed(3)
    eager = drop(x).cpu()
    torch.manual_seed(3)
    compiled = torch.compile(drop, backend="tpu")(x).cpu()
    assert torch.equal(eager, compiled)


def test_unknown_options_are_refused() -> None:
    with pytest.raises(Exception, match="unknown options"):
        torch.compile(lambda x: x + 1, backend="tpu", options={"no_such": 1})(
            torch.ones(1, device="tpu")
        )


def test_torch_logs_shows_graphs_and_programs():
    code = """
import torch
torch.compile(lambda x: torch.tanh(x) * 2, backend="tpu")(torch.ones(3, device="tpu")).cpu()
"""
    for setting, program in (("torch_tpu._compile", False), ("+torch_tpu._compile", True)):
        child = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "TORCH_LOGS": setting},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert child.returncode == 0, child.stderr
        assert "aten.tanh" in child.stderr
        assert ("stablehlo.tanh" in child.stderr) == program


def test_without_a_backend_graphs_of_the_cpu_go_to_inductor():
    from torch._dynamo.utils import counters

    counters.clear()
    x = torch.linspace(-1, 1, 7)
    y = torch.compile(lambda t: torch.sin(t) + 1)(x)
    torch.testing.assert_close(y, torch.sin(x) + 1)
    assert counters["inductor"]
    assert not counters["tpu"]
