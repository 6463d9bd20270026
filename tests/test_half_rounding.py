"""Operators whose half results are rounded once, where the CPU rounds in between.

A comparison with the CPU's half result can't tell who is right: here the exact result, in float64,
is the measure.
"""

from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import torch_tpu  # noqa: F401

NAMES = [
    "addbmm",
    "grid_sampler_2d",
    "matrix_exp",
    "nn_functional_conv_transpose1d",
    "nn_functional_conv_transpose2d",
    "nn_functional_conv_transpose3d",
    "nn_functional_grid_sample",
    "nn_functional_instance_norm",
]
OPERATORS = [op for op in op_db if op.formatted_name in NAMES]
MOST_SAMPLES = 20
# What float32 arithmetic inside may add, relative to the largest element.
FLOAT32_ERROR = 1e-5


def half_ulp(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Half the distance of neighbours of `x` in `dtype`."""
    info = torch.finfo(dtype)
    exponent = torch.frexp(x.clamp(-info.max, info.max)).exponent
    smallest = torch.frexp(torch.tensor(info.tiny)).exponent
    unit = torch.ldexp(torch.ones_like(x), exponent.maximum(smallest) - 1)
    return unit * info.eps / 2


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("op", OPERATORS, ids=[op.formatted_name for op in OPERATORS])
def test_results_are_rounded_once(op: Any, dtype: torch.dtype) -> None:
    if dtype not in op.supported_dtypes("cpu"):
        pytest.skip("not on the CPU")
    torch.manual_seed(0)
    for sample in list(op.sample_inputs("cpu", dtype))[:MOST_SAMPLES]:
        arguments = (sample.input, list(sample.args), dict(sample.kwargs))

        def call(f: Any, arguments: Any = arguments) -> list[torch.Tensor]:
            x, args, kwargs = pytree.tree_map_only(torch.Tensor, f, arguments)
            return pytree.tree_leaves(op.op(x, *args, **kwargs))

        exact = call(lambda t: t.double() if t.is_floating_point() else t)
        for got, want in zip(call(lambda t: t.to("tpu")), exact, strict=True):
            assert got.dtype == dtype
            finite = want.abs() <= torch.finfo(dtype).max
            if not bool(finite.any()):
                continue
            error = (got.cpu().double() - want).abs()[finite]
            want = want[finite]
            allowed = 1.01 * half_ulp(want, dtype) + FLOAT32_ERROR * want.abs().max()
            assert bool((error <= allowed).all()), (error / allowed).max().item()
