"""Comparison of a function of tensors on the device with the same function on the CPU."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

import torch_tpu  # noqa: F401


def _tensors(result: Any) -> list[torch.Tensor]:
    if isinstance(result, torch.Tensor):
        return [result]
    return [t for t in result if isinstance(t, torch.Tensor)]


def assert_agrees(
    function: Callable[..., Any],
    *inputs: torch.Tensor,
    gradients: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> None:
    """Asserts that results and gradients on the device are those on the CPU.

    Gradients are taken in every floating or complex input, for random gradients of the results.
    """

    def run(device: str, seeds: Sequence[torch.Tensor]) -> tuple[list, list]:
        leaves = [t.detach().to(device) for t in inputs]
        wanted = []
        if gradients:
            wanted = [t.requires_grad_() for t in leaves if t.is_floating_point() or t.is_complex()]
        results = _tensors(function(*leaves))
        roots = [t for t in results if t.requires_grad]
        if not (wanted and roots):
            return results, []
        if not seeds:
            generator = torch.Generator().manual_seed(1)
            seeds = [torch.randn(t.shape, generator=generator).to(t.dtype) for t in roots]
        grads = torch.autograd.grad(roots, wanted, [s.to(device) for s in seeds], allow_unused=True)
        return results, list(grads)

    expected, expected_grads = run("cpu", [])
    results, grads = run("tpu", [])
    assert len(results) == len(expected)
    for got, want in zip(results + grads, expected + expected_grads, strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            assert got.device.type == "tpu"
            torch.testing.assert_close(got.cpu(), want, rtol=rtol, atol=atol, equal_nan=True)
