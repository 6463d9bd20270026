"""float32 matrix products in one, three or six bfloat16 passes, as a TPU makes them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from torch_tpu import _plugins

_PROGRAM = """
import json, torch
torch.manual_seed(0)
a, b = torch.randn(256, 512), torch.randn(512, 256)
x, w = torch.randn(2, 16, 12, 12), torch.randn(8, 16, 3, 3)
errors = {}
for precision in ("medium", "high", "highest"):
    torch.set_float32_matmul_precision(precision)
    for name, f, args in (("mm", torch.mm, (a, b)), ("conv", torch.nn.functional.conv2d, (x, w))):
        exact = f(*(t.double() for t in args))
        got = f(*(t.to("tpu") for t in args)).cpu().double()
        errors[f"{name} {precision}"] = ((got - exact).norm() / exact.norm()).item()
print(json.dumps(errors))
"""


def _errors(emulate: bool) -> dict[str, float]:
    env = dict(os.environ, TORCH_TPU_EMULATE_MXU="1" if emulate else "0")
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PROGRAM],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(out.stdout.splitlines()[-1])


@pytest.mark.parametrize("operator", ["mm", "conv"])
def test_emulated_passes_have_the_errors_of_their_number(operator: str) -> None:
    errors = _errors(emulate=True)
    # One pass rounds operands to 8 bits, three keep 16, six all 24.
    assert 5e-4 < errors[f"{operator} medium"] < 1e-2
    assert 1e-7 < errors[f"{operator} high"] < 5e-5
    assert errors[f"{operator} highest"] < 2e-6
    assert errors[f"{operator} highest"] < errors[f"{operator} high"] < errors[f"{operator} medium"]


def test_without_emulation_a_cpu_plugin_is_exact_at_every_setting() -> None:
    assert all(error < 2e-6 for error in _errors(emulate=False).values())


_PROBE = """
import torch
from torch_tpu import _C
torch.ones(2, device="tpu").add(1).cpu()
for with_options in (True, False):
    print(_C._ineffective_numerics_options(with_options))
"""


@pytest.mark.parametrize("plugin", _plugins._known_cpu_plugins(), ids=lambda p: p.stem)
def test_every_known_plugin_heeds_the_options_that_numerics_need(plugin: Path) -> None:
    child = subprocess.run(
        [sys.executable, "-c", _PROBE],
        env={**os.environ, "TORCH_TPU_PJRT_PLUGIN": str(plugin)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    with_options, without = child.stdout.strip().splitlines()[-2:]
    assert with_options == "[]"
    assert without != "[]"  # the probe can tell
