"""Starts of whole programs on caches empty, full and damaged."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from torch_tpu import _plugins

PROGRAM = """
import json, torch, torch_tpu
torch.manual_seed(0)
x = torch.randn(8, 16)
weight = torch.randn(16, 4)
x, weight = x.to("tpu"), weight.to("tpu").requires_grad_()
x = x / x.amax()
for _ in range(2):
    loss = torch.nn.functional.gelu(x @ weight).square().mean()
    loss.backward()
    with torch.no_grad():
        weight -= weight.grad
        weight.grad = None
print(json.dumps([weight.sum().item().hex(), torch.tpu.cache.stats().programs.compilations,
                  torch.tpu.cache.stats().programs.requests]))
"""


def begin(folder: Path, code: str = PROGRAM, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "TORCH_TPU_CACHE_DIR": str(folder), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: "subprocess.Popen[str]") -> tuple[list[Any], str]:
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(out), errors


def start(folder: Path, **environment: str) -> tuple[str, int, str]:
    """Runs the program: its result, how much it compiled, what it wrote to stderr."""
    (result, compilations, requests), errors = end(begin(folder, **environment))
    assert requests > 5
    return result, compilations, errors


@pytest.fixture(scope="module")
def filled(tmp_path_factory) -> tuple[Path, str, int]:
    """A cache that the program has filled, its result, and how much it compiled."""
    folder = tmp_path_factory.mktemp("cache")
    result, compilations, errors = start(folder)
    assert compilations > 5
    assert errors == ""
    return folder, result, compilations


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("default/v1/entries/*/*"))


def copy(filled: tuple[Path, str, int], folder: Path) -> Path:
    for entry in entries(filled[0]):
        target = folder / entry.relative_to(filled[0])
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        target.write_bytes(entry.read_bytes())
        target.chmod(0o600)
    return folder


def test_a_second_start_compiles_nothing_and_gives_the_same_bits(filled):
    assert start(filled[0]) == (filled[1], 0, "")


@pytest.mark.parametrize("plugin", _plugins._known_cpu_plugins(), ids=lambda p: p.stem)
def test_a_second_start_on_any_plugin_compiles_nothing(tmp_path, plugin):
    first = start(tmp_path, TORCH_TPU_PJRT_PLUGIN=str(plugin))
    assert start(tmp_path, TORCH_TPU_PJRT_PLUGIN=str(plugin)) == (first[0], 0, first[2])


@pytest.mark.slow
def test_eight_processes_on_an_empty_cache_compile_as_much_as_one(filled, tmp_path):
    processes = [begin(tmp_path) for _ in range(8)]
    results = [end(p)[0] for p in processes]
    assert {r[0] for r in results} == {filled[1]}
    assert sum(r[1] for r in results) == filled[2]


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "swap"])
def test_a_damaged_cache_costs_compilations_and_one_warning(filled, tmp_path, damage):
    files = entries(copy(filled, tmp_path))
    contents = [f.read_bytes() for f in files]
    for i, (file, content) in enumerate(zip(files, contents, strict=True)):
        middle = len(content) // 2
        bad = {
            "flip": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "cut": content[:middle],
            "empty": b"",
            "swap": contents[i - 1],
        }
        file.write_bytes(bad[damage])
    result, compilations, errors = start(tmp_path)
    assert (result, compilations) == (filled[1], filled[2])
    assert len(errors.splitlines()) == 1
    assert start(tmp_path) == (filled[1], 0, "")


def test_other_flags_of_the_compiler_find_nothing_and_leave_the_entries(filled, tmp_path):
    folder = copy(filled, tmp_path)
    flags = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_enable_fast_math=false"
    _, compilations, errors = start(folder, XLA_FLAGS=flags.strip())
    assert (compilations, errors) == (filled[2], "")
    assert start(folder)[:2] == (filled[1], 0)


def test_a_cache_that_is_turned_off_leaves_no_trace(filled, tmp_path):
    off = start(tmp_path, TORCH_TPU_TIER2_COMPILATION_CACHE="disabled")
    assert off == (filled[1], filled[2], "")
    assert list(tmp_path.iterdir()) == []


def test_the_fleet_serves_machines_that_have_nothing(filled, tmp_path):
    fleet = {"TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT": str(tmp_path / "fleet")}
    assert start(tmp_path / "one", **fleet) == (filled[1], filled[2], "")
    assert start(tmp_path / "two", **fleet) == (filled[1], 0, "")
    assert len(entries(tmp_path / "two")) == len(entries(tmp_path / "one"))


def test_cache_only_forbids_compiling_until_it_ends(tmp_path):
    code = """
import json, torch, torch_tpu
x = torch.ones(3, device="tpu")
assert (x + x).sum().item() == 6
with torch.tpu.cache.cache_only():
    assert (x + x).sum().item() == 6
    try:
        print((x * x).cpu())
    except RuntimeError as error:
        assert "aten::mul" in str(error) and "cache_only" in str(error), error
    else:
        raise AssertionError
assert (x * x).sum().item() == 3
assert torch.tpu.cache.stats().programs.forbidden >= 1
print("[]")
"""
    end(begin(tmp_path, code))
