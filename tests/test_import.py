"""What importing does and what it doesn't, each in a process of its own."""

import importlib.metadata
import subprocess
import sys

import pytest


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_import_prints_nothing_and_starts_no_client_and_no_thread():
    code = """
import os, torch
threads = len(os.listdir("/proc/self/task"))
import torch_tpu
assert len(os.listdir("/proc/self/task")) == threads
assert not torch.tpu.is_initialized()
assert not any("pjrt" in line for line in open("/proc/self/maps"))
"""
    result = run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_autoload_makes_import_torch_enough():
    names = {e.name for e in importlib.metadata.entry_points(group="torch.backends")}
    if "torch_tpu" not in names:
        pytest.skip("the package isn't installed: make build")
    result = run("import torch; print(torch.ones(2, device='tpu').sum().item())")
    assert (result.returncode, result.stdout) == (0, "2.0\n"), result.stderr


def test_either_import_order_works_and_registers_once():
    for code in (
        "import torch_tpu, torch; torch.tpu.device_count()",
        "import torch, torch_tpu; torch.tpu.device_count()",
        "from torch_tpu import _autoload as a; a.load(); a.load(); import torch; torch.tpu.init",
    ):
        result = run(code)
        assert result.returncode == 0, result.stderr


def test_import_costs_less_than_100_ms_over_torch():
    code = """
import time, torch
start = time.process_time()
import torch_tpu
print(time.process_time() - start)
"""
    seconds = min(float(run(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout) for _ in range(3))
    assert seconds < 0.1


def test_without_any_plugin_import_works_and_first_use_says_what_to_install():
    code = """
import torch, torch_tpu
from torch_tpu import _plugins
_plugins._file_of = lambda package, file: None
assert not torch.tpu.is_available() and torch.tpu.device_count() == 0
assert torch.ones(2).sum().item() == 2
torch.manual_seed(0)
x = torch.ones(2, requires_grad=True)
x.sum().backward()
assert not torch.tpu.is_initialized()
try:
    torch.ones(2, device="tpu")
except RuntimeError as error:
    assert "pip install xla-cpu-pjrt" in str(error), error
else:
    raise AssertionError
"""
    result = run(code, TORCH_TPU_PJRT_PLUGIN="")
    assert result.returncode == 0, result.stderr


def test_cpu_only_backward_starts_no_client():
    code = """
import torch, torch_tpu
model = torch.nn.Linear(4, 4)
model(torch.ones(2, 4)).sum().backward()
assert not torch.tpu.is_initialized()
"""
    result = run(code)
    assert result.returncode == 0, result.stderr


def test_operators_with_python_meta_kernels_do_not_import_dynamo() -> None:
    code = """
import sys, torch
x = torch.ones(4, 4, device="tpu", requires_grad=True)
(torch.relu(x) + x.masked_fill(x > 0, 2.0) * torch.rsqrt(x)).sum().backward()
torch.nn.functional.layer_norm(torch.where(x > 0, x, -x), (4,)).mean().backward()
print("torch._dynamo" in sys.modules)
import torch._dynamo
f = torch.compile(lambda y: torch.relu(y) + 1, backend="eager", fullgraph=True)
print(f(torch.ones(2)).sum().item(), torch.relu(torch.ones(3, device="meta")).shape[0])
"""
    result = run(code)
    assert result.stdout.split() == ["False", "4.0", "3"], result.stderr
