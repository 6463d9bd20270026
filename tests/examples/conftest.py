"""Runs the examples in this process, on the device under test."""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture(params=[os.environ.get("TORCH_TPU_TEST_DEVICE", "tpu")])
def device(request: pytest.FixtureRequest) -> str:
    """The device the examples run on: "tpu" unless TORCH_TPU_TEST_DEVICE names another."""
    return request.param


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """One CPU thread: OpenMP's spinning threads starve each other when tests run in parallel."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def example(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], ModuleType]]:
    """Imports an example by name; what it changes in PyTorch is restored afterwards."""
    pytest.importorskip("transformers", reason="the examples' packages are not installed")
    pytest.importorskip("sklearn", reason="the examples' packages are not installed")
    # `monkeypatch` puts back sys.path and this variable, which the examples set themselves.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.syspath_prepend(str(repository / "examples"))
    before = set(sys.modules)
    precision = torch.get_float32_matmul_precision()
    yield importlib.import_module
    torch.set_float32_matmul_precision(precision)
    torch.compiler.reset()
    for name in ("_common", "demo", "digits", "generate", "train_gpt"):
        if name not in before:
            sys.modules.pop(name, None)


@pytest.fixture
def no_fallback(device: str) -> Iterator[None]:
    """Fails the test if an operator fell back to the CPU while it ran."""
    if device == "cpu":
        yield
        return
    import torch_tpu  # noqa: F401

    before = dict(torch.tpu.fallback_report())
    yield
    after = torch.tpu.fallback_report()
    new = {name: n - before.get(name, 0) for name, n in after.items() if n > before.get(name, 0)}
    assert not new, f"operators fell back to the CPU: {new}"
