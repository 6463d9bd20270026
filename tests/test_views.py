"""Random chains of views, reads and writes give on the device what they give on the CPU."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8]


def _base(data: st.DataObject, dtype: torch.dtype) -> torch.Tensor:
    # Few different sizes: a view's layout is part of a program, and programs are compiled.
    shape = data.draw(
        st.sampled_from([(), (4,), (2, 3), (3, 4), (2, 3, 4), (1, 4), (2, 2, 3, 4), (0, 3)])
    )
    n = 1
    for size in shape:
        n *= size
    values = torch.arange(n) % 7
    tensor = (values % 2).bool() if dtype == torch.bool else values.to(dtype)
    if dtype.is_complex:
        tensor = tensor + 1j * torch.arange(n)
    tensor = tensor.to(dtype).reshape(shape)
    if tensor.dim() == 4 and data.draw(st.booleans()):
        tensor = tensor.to(memory_format=torch.channels_last)
    return tensor


def _draw_view(data: st.DataObject, t: torch.Tensor) -> tuple[str, tuple]:
    """A view operator and its arguments that fit `t`."""
    choices = ["alias", "unsqueeze", "flatten_or_view"]
    if t.dim() > 0:
        choices += ["select", "slice", "expand_new", "unfold", "narrow", "squeeze"]
    if t.dim() > 1:
        choices += ["transpose", "permute", "diagonal"]
    if t.is_complex():
        choices += ["view_as_real", "conj", "real", "imag"]
    if t.dtype == torch.int64 and t.dim() > 0 and t.is_contiguous():
        choices += ["view_dtype"]
    name = data.draw(st.sampled_from(choices))
    dim = data.draw(st.integers(0, t.dim() - 1)) if t.dim() else 0
    size = t.size(dim) if t.dim() else 1
    match name:
        case "unsqueeze":
            return name, (data.draw(st.integers(0, t.dim())),)
        case "select":
            if size == 0:
                return "alias", ()
            return name, (dim, data.draw(st.integers(-size, size - 1)))
        case "slice":
            start = data.draw(st.integers(0, size))
            return name, (
                dim,
                start,
                data.draw(st.integers(start, size)),
                data.draw(st.integers(1, 2)),
            )
        case "narrow":
            start = data.draw(st.integers(0, size))
            return name, (dim, start, data.draw(st.integers(0, size - start)))
        case "unfold":
            if size == 0:
                return "alias", ()
            return name, (dim, data.draw(st.integers(1, size)), data.draw(st.integers(1, 2)))
        case "transpose":
            return name, (dim, data.draw(st.integers(0, t.dim() - 1)))
        case "permute":
            return name, (tuple(data.draw(st.permutations(range(t.dim())))),)
        case "diagonal":
            return name, (data.draw(st.integers(-1, 1)), 0, 1)
        case "squeeze":
            return name, (dim,)
        case _:
            return name, ()


def _apply(t: torch.Tensor, name: str, args: tuple) -> torch.Tensor:
    match name:
        case "alias":
            return t.view(t.shape) if t.is_contiguous() else t[...]
        case "flatten_or_view":
            return t.view(-1) if t.is_contiguous() else t.detach()
        case "slice":
            dim, start, end, step = args
            return torch.ops.aten.slice.Tensor(t, dim, start, end, step)
        case "expand_new":
            return t.unsqueeze(0).expand(2, *t.shape)
        case "view_as_real":
            return torch.view_as_real(t.resolve_conj()) if t.is_conj() else torch.view_as_real(t)
        case "real":
            return t.real
        case "imag":
            return t.imag
        case "conj":
            return t.conj()
        case "view_dtype":
            return t.view(torch.int32)
        case _:
            return getattr(t, name)(*args)


def _write(t: torch.Tensor, kind: str) -> None:
    match kind:
        case "fill":
            t.fill_(1)
        case "zero":
            t.zero_()
        case "add":
            t.add_(t) if t.dtype != torch.bool else t.logical_or_(t)
        case "copy":
            t.copy_(torch.ones(t.shape, dtype=t.dtype))
        case "mul":
            t.mul_(3) if t.dtype != torch.bool else t.logical_not_()


def _overlaps(t: torch.Tensor) -> bool:
    return any(
        size > 1 and stride == 0 for size, stride in zip(t.shape, t.stride(), strict=True)
    ) or (t.numel() > 0 and len({int(i) for i in _offsets(t)}) < t.numel())


def _offsets(t: torch.Tensor) -> torch.Tensor:
    where = torch.zeros(t.shape, dtype=torch.int64)
    for d, stride in enumerate(t.stride()):
        shape = [1] * t.dim()
        shape[d] = t.size(d)
        where = where + (torch.arange(t.size(d)) * stride).reshape(shape)
    return where.reshape(-1)


@settings(
    max_examples=2000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data(), dtype=st.sampled_from(DTYPES))
def test_random_chains_of_views_reads_and_writes_agree_with_the_cpu(
    data: st.DataObject, dtype: torch.dtype
) -> None:
    cpu = _base(data, dtype)
    dev = cpu.to("tpu")
    assert dev.stride() == cpu.stride()
    views = [(cpu, dev)]
    for _ in range(data.draw(st.integers(1, 4))):
        a, b = views[data.draw(st.integers(0, len(views) - 1))]
        name, args = _draw_view(data, a)
        a, b = _apply(a, name, args), _apply(b, name, args)
        assert (a.shape, a.stride(), a.storage_offset()) == (
            b.shape,
            b.stride(),
            b.storage_offset(),
        )
        views.append((a, b))
        if data.draw(st.booleans()) and not _overlaps(a):
            kind = data.draw(st.sampled_from(["fill", "zero", "add", "copy", "mul"]))
            _write(a, kind)
            _write(b, kind)
    for a, b in views:
        torch.testing.assert_close(b.cpu(), a, rtol=0, atol=0, equal_nan=True)
        # A read through the program, not only through host memory.
        torch.testing.assert_close(b.clone().cpu(), a.clone(), rtol=0, atol=0, equal_nan=True)


def test_overlapping_writes_are_refused_as_on_the_cpu() -> None:
    for device in ("cpu", "tpu"):
        t = torch.zeros(3, device=device).expand(2, 3)
        with pytest.raises(RuntimeError, match="single memory location"):
            t.add_(1)
        base = torch.arange(4.0, device=device)
        with pytest.raises(RuntimeError, match="memory location"):
            base[1:].add_(base[:-1])


def test_as_strided_reads_any_layout() -> None:
    base = torch.arange(24.0)
    dev = base.to("tpu")
    for size, stride, offset in [
        ((3, 4), (4, 1), 0),
        ((4, 3), (1, 4), 2),
        ((5,), (5,), 1),
        ((3, 3), (7, 2), 3),
        ((3, 4), (2, 1), 1),
        ((2, 2, 2), (3, 5, 7), 0),
        ((4,), (0,), 5),
        ((), (), 9),
    ]:
        expected = base.as_strided(size, stride, offset)
        got = dev.as_strided(size, stride, offset)
        torch.testing.assert_close((got + 0).cpu(), expected + 0)


def test_resize_keeps_the_leading_elements() -> None:
    for device in ("cpu", "tpu"):
        t = torch.arange(4.0, device=device)
        t.resize_(2, 3)
        assert t.cpu().flatten()[:4].tolist() == [0.0, 1.0, 2.0, 3.0]
        t.resize_(2)
        assert t.cpu().tolist() == [0.0, 1.0]


def test_set_shares_the_storage() -> None:
    a = torch.arange(6.0, device="tpu")
    b = torch.empty(0, device="tpu")
    b.set_(a.untyped_storage(), 1, (2, 2), (2, 1))
    b.add_(10)
    assert a.cpu().tolist() == [0.0, 11.0, 12.0, 13.0, 14.0, 5.0]


SHARING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "_unsafe_view": lambda x: torch.ops.aten._unsafe_view(x, [2, 3]),
    "unsafe_split": lambda x: torch.ops.aten.unsafe_split(x, 2)[0],
    "unsafe_chunk": lambda x: x.unsafe_chunk(2)[0],
    "reshape": lambda x: x.reshape(2, 3),
    "reshape of a transpose": lambda x: x.view(2, 3).t().reshape(6),
    "contiguous": lambda x: x.contiguous(),
    "flatten": lambda x: x.view(2, 3).flatten(),
    "lift_fresh": lambda x: torch.ops.aten.lift_fresh(x),
    "to the same type": lambda x: x.to(torch.float32),
    "positive": lambda x: +x,
    "conj of a real tensor": lambda x: x.conj(),
    "real of a real tensor": lambda x: x.real,
    "dropout outside of training": lambda x: torch.dropout(x, 0.5, False),
    "broadcast_tensors": lambda x: torch.broadcast_tensors(x, x)[0],
    "diagonal": lambda x: x.view(2, 3).diagonal(),
    "movedim": lambda x: x.view(2, 3).movedim(0, 1),
    "view of another type": lambda x: x.view(torch.int32),
    "padding that crops": lambda x: torch.nn.functional.pad(x, (0, -1)),
    "pooling to the same size": lambda x: torch.nn.functional.adaptive_avg_pool1d(x[None], 6),
    "cat of one": lambda x: torch.cat([x]),
    "repeat once": lambda x: x.repeat(1),
    "flip of nothing": lambda x: x.flip(()),
    "sum over no dimension": lambda x: x.sum((0,), keepdim=True),
    "einsum of one": lambda x: torch.einsum("i->i", x),
}


@pytest.mark.parametrize("name", SHARING)
def test_results_share_memory_with_their_operand_where_the_cpu_s_do(name: str) -> None:
    zeros = []
    for device in ("cpu", "tpu"):
        x = torch.arange(1, 7, dtype=torch.float32, device=device)
        SHARING[name](x).zero_()
        zeros.append((x == 0).tolist())
    assert zeros[1] == zeros[0]


def test_kron_writes_into_out() -> None:
    a, b = torch.randn(3, 4), torch.randn(5, 2)
    out = torch.empty(15, 8, device="tpu")
    assert torch.kron(a.to("tpu"), b.to("tpu"), out=out) is out
    torch.testing.assert_close(out.cpu(), torch.kron(a, b))
