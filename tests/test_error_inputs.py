"""Calls which PyTorch refuses on the CPU are refused on the device, with the same exception."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import torch_tpu  # noqa: F401

# By operator, the number of calls refused for what a tensor holds: the device would have to wait
# for it.
BY_VALUE = {"gather": 1, "multinomial": 14, "scatter": 1, "scatter_add": 1}
# The CPU's kernel asserts what is an IndexError everywhere else in PyTorch.
OTHER_TYPE = {"narrow_copy": 1}

OPERATORS = [op for op in op_db if op.error_inputs_func is not None]


class Copies:
    """Copies of arguments on a device, in which what shared memory shares it again."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._storages: dict[int, torch.Tensor] = {}

    def __call__(self, x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return self._tensor(x)
        if isinstance(x, torch.device) or x == "cpu":
            return torch.device(self._device)
        return x

    def _tensor(self, x: torch.Tensor) -> torch.Tensor:
        if x.layout != torch.strided or x.device.type != "cpu":
            return x
        storage = x.untyped_storage()
        if storage.nbytes() == 0:
            return x.detach().clone().to(self._device)
        if storage._cdata not in self._storages:
            flat = torch.as_strided(x.detach(), (storage.nbytes() // x.element_size(),), (1,), 0)
            self._storages[storage._cdata] = flat.clone().to(self._device)
        base = self._storages[storage._cdata].view(x.dtype)
        return base.as_strided(x.size(), x.stride(), x.storage_offset())


def exception_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def refusals(op: Any) -> Iterator[tuple[Exception, Exception | None]]:
    """The CPU's exception and the device's, for each call that the CPU refuses."""
    for error_input in op.error_inputs("cpu"):
        sample = error_input.sample_input
        errors = []
        for device in ("cpu", "tpu"):
            copies = Copies(device)
            arguments = (sample.input, list(sample.args), dict(sample.kwargs))
            x, args, kwargs = pytree.tree_map(copies, arguments)
            errors.append(exception_of(partial(op.op, x, *args, **kwargs)))
        if errors[0] is not None:
            yield errors[0], errors[1]


@pytest.mark.parametrize("op", OPERATORS, ids=[op.formatted_name for op in OPERATORS])
@pytest.mark.filterwarnings("ignore")
def test_the_device_refuses_what_the_cpu_refuses(op: Any) -> None:
    different = [
        f"{type(cpu).__name__}: {cpu}; on the device {device!r}"
        for cpu, device in refusals(op)
        if type(device) is not type(cpu)
    ]
    allowed = BY_VALUE.get(op.name, 0) + OTHER_TYPE.get(op.name, 0)
    assert len(different) <= allowed, "\n".join(different)


def refused_alike(call: Callable[[str], object]) -> None:
    cpu = exception_of(lambda: call("cpu"))
    device = exception_of(lambda: call("tpu"))
    assert cpu is not None
    assert type(device) is type(cpu), (cpu, device)


def ones(device: str, *shape: int, **options: Any) -> torch.Tensor:
    return torch.ones(shape, device=device, **options)


DRAWS: dict[str, tuple[Callable[..., object], tuple[float, ...], tuple[float, ...]]] = {
    "uniform": (torch.Tensor.uniform_, (0, 1), (3, -1)),
    "normal": (torch.Tensor.normal_, (0, 1), (0, -1)),
    "log_normal": (torch.Tensor.log_normal_, (1, 1), (1, 0)),
    "cauchy": (torch.Tensor.cauchy_, (0, 1), (0, 0)),
    "exponential": (torch.Tensor.exponential_, (1,), (-1,)),
    "geometric": (torch.Tensor.geometric_, (0.5,), (1.0,)),
    "bernoulli": (torch.Tensor.bernoulli_, (0.5,), (1.5,)),
    "random": (torch.Tensor.random_, (0, 5), (5, 0)),
    "normal of means": (torch.normal, (1.0,), (-1.0,)),
    "bernoulli of a shape": (torch.bernoulli, (0.5,), (-0.5,)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_of_draws_are_checked_on_every_call(name: str) -> None:
    draw, good, bad = DRAWS[name]
    draw(ones("tpu", 4), *good)  # the program is there when the bad numbers come
    refused_alike(lambda device: draw(ones(device, 4), *bad))


def test_bounds_of_uniform_draws_fit_the_type() -> None:
    refused_alike(lambda device: ones(device, 4).uniform_(-1e39, 1e39))
    refused_alike(lambda device: ones(device, 4, dtype=torch.float16).uniform_(-1e5, 1e5))
    ones("tpu", 4, dtype=torch.float64).uniform_(-1e39, 1e39)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize(
    "options", [{"padding": -1}, {"stride": 0}, {"dilation": 0}, {"groups": 0}, {"groups": 5}]
)
def test_convolutions_check_their_geometry(n: int, options: dict[str, int]) -> None:
    f = getattr(torch.nn.functional, f"conv{n}d")
    transposed = getattr(torch.nn.functional, f"conv_transpose{n}d")
    x, w = (1, 3, *[5] * n), (3, 3, *[3] * n)
    refused_alike(lambda device: f(ones(device, *x), ones(device, *w), **options))
    refused_alike(lambda device: transposed(ones(device, *x), ones(device, *w), **options))


def test_a_convolution_without_input_channels_has_no_output_channels() -> None:
    for device in ("cpu", "tpu"):
        y = torch.nn.functional.conv2d(ones(device, 1, 0, 5, 5), ones(device, 4, 0, 3, 3))
        assert y.shape == (1, 0, 3, 3)


@pytest.mark.parametrize("name", ["scatter_", "scatter_add_", "index_copy_", "index_add_"])
def test_a_tensor_is_not_scattered_into_itself(name: str) -> None:
    def scatter(device: str) -> None:
        x = ones(device, 3)
        getattr(x, name)(0, torch.arange(3, device=device), x)

    refused_alike(scatter)


@pytest.mark.parametrize("name", ["max", "min", "amax", "amin", "argmax", "mode", "kthvalue"])
def test_extrema_of_nothing_are_index_errors(name: str) -> None:
    f = getattr(torch, name)
    number = (1,) if name == "kthvalue" else ()
    refused_alike(lambda device: f(ones(device, 3, 0), *number, 1))
    assert f(ones("tpu", 3, 0), *number, 0) is not None
    if name not in ("mode", "kthvalue"):
        refused_alike(lambda device: f(ones(device, 3, 0)))


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.long().softmax(0),
        lambda x: x & x,
        lambda x: x.to(torch.complex64).floor(),
        lambda x: x.long() ** -1,
        lambda x: x[x],
        lambda x: torch.cat([x[0], x[1]]),
    ],
    ids=["softmax", "and", "floor", "pow", "index", "cat"],
)
def test_types_without_such_a_function_are_refused_as_on_the_cpu(
    f: Callable[[torch.Tensor], object],
) -> None:
    refused_alike(lambda device: f(ones(device, 2)))
