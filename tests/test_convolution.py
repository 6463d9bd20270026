"""Convolutions and their gradients."""

import pytest
import torch
from against_cpu import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as nf

import torch_tpu  # noqa: F401

LOOSE = {"rtol": 1e-4, "atol": 1e-4}
CONV = {1: nf.conv1d, 2: nf.conv2d, 3: nf.conv3d}
CONV_TRANSPOSE = {1: nf.conv_transpose1d, 2: nf.conv_transpose2d, 3: nf.conv_transpose3d}


@st.composite
def geometries(draw: st.DrawFn) -> dict:
    n = draw(st.integers(1, 2))
    lists = {
        name: [draw(st.integers(low, high)) for _ in range(n)]
        for name, low, high in (
            ("stride", 1, 3),
            ("padding", 0, 2),
            ("dilation", 1, 2),
            ("kernel", 1, 3),
            ("spare", 0, 3),
        )
    }
    groups = draw(st.sampled_from([1, 2, 4]))
    return {
        "n": n,
        "groups": groups,
        "channels": groups * draw(st.integers(1, 2)),
        "features": groups * draw(st.integers(1, 2)),
        **lists,
    }


@settings(max_examples=15, deadline=None)
@given(geometries())
def test_convolution_and_gradients_agree_with_cpu(g: dict) -> None:
    size = [
        d * (k - 1) + 1 + s for d, k, s in zip(g["dilation"], g["kernel"], g["spare"], strict=True)
    ]
    x = torch.randn(2, g["channels"], *size)
    weight = torch.randn(g["features"], g["channels"] // g["groups"], *g["kernel"])
    names = ("stride", "padding", "dilation", "groups")
    arguments = {name: g[name] for name in names}
    assert_agrees(
        lambda x, w, b: CONV[g["n"]](x, w, b, **arguments),
        x,
        weight,
        torch.randn(g["features"]),
        **LOOSE,
    )


@settings(max_examples=15, deadline=None)
@given(geometries(), st.data())
def test_transposed_convolution_and_gradients_agree_with_cpu(g: dict, data: st.DataObject) -> None:
    limits = [max(s, d) - 1 for s, d in zip(g["stride"], g["dilation"], strict=True)]
    output_padding = [data.draw(st.integers(0, limit)) for limit in limits]
    size = [3 + s for s in g["spare"]]
    x = torch.randn(2, g["channels"], *size)
    weight = torch.randn(g["channels"], g["features"] // g["groups"], *g["kernel"])
    arguments = {name: g[name] for name in ("stride", "padding", "dilation", "groups")}
    reach = [
        (i - 1) * s - 2 * p + d * (k - 1) + o + 1
        for i, s, p, d, k, o in zip(
            size, g["stride"], g["padding"], g["dilation"], g["kernel"], output_padding, strict=True
        )
    ]
    if min(reach) <= 0:
        return
    assert_agrees(
        lambda x, w: CONV_TRANSPOSE[g["n"]](x, w, output_padding=output_padding, **arguments),
        x,
        weight,
        **LOOSE,
    )


def test_three_dimensional_convolution_agrees_with_cpu() -> None:
    x, weight = torch.randn(1, 2, 4, 5, 6), torch.randn(4, 2, 2, 3, 2)
    assert_agrees(lambda x, w: nf.conv3d(x, w, padding=1, stride=2), x, weight, **LOOSE)
    assert_agrees(
        lambda x, w: nf.conv_transpose3d(x, w, padding=1, stride=2),
        x,
        weight.transpose(0, 1),
        **LOOSE,
    )


def test_depthwise_convolution_agrees_with_cpu() -> None:
    assert_agrees(
        lambda x, w: nf.conv2d(x, w, padding=1, groups=6),
        torch.randn(2, 6, 7, 7),
        torch.randn(12, 1, 3, 3),
        **LOOSE,
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
def test_integer_convolution_is_exact(dtype: torch.dtype) -> None:
    x = torch.randint(0, 9, (2, 3, 6)).to(dtype)
    assert_agrees(nf.conv1d, x, torch.randint(0, 9, (4, 3, 2)).to(dtype))


def test_unbatched_and_empty_inputs_keep_their_shapes() -> None:
    weight = torch.randn(4, 3, 2, 2)
    assert_agrees(nf.conv2d, torch.randn(3, 5, 5), weight, **LOOSE)
    assert_agrees(nf.conv2d, torch.randn(0, 3, 5, 5), weight)


def test_channels_last_weights_and_inputs_agree_with_cpu() -> None:
    x = torch.randn(2, 3, 6, 5).contiguous(memory_format=torch.channels_last)
    weight = torch.randn(4, 3, 3, 3).contiguous(memory_format=torch.channels_last)
    assert_agrees(nf.conv2d, x, weight, **LOOSE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_direct_convolutions_of_half_tensors_keep_their_type(dtype: torch.dtype) -> None:
    x2, w2 = torch.randn(2, 3, 5, 5).to(dtype), torch.randn(4, 3, 3, 3).to(dtype)
    x3, w3 = torch.randn(2, 3, 5, 5, 5).to(dtype), torch.randn(4, 3, 3, 3, 3).to(dtype)
    aten = torch.ops.aten
    calls = [
        lambda m: aten._slow_conv2d_forward(m(x2), m(w2), [3] * 2, None, [1] * 2, [0] * 2),
        lambda m: aten.slow_conv_dilated2d(m(x2), m(w2), [3] * 2, None, [1] * 2, [0] * 2, [2] * 2),
        lambda m: aten.slow_conv3d_forward(m(x3), m(w3), [3] * 3, None, [1] * 3, [0] * 3),
        lambda m: aten.slow_conv_dilated3d(m(x3), m(w3), [3] * 3, None, [1] * 3, [0] * 3, [2] * 3),
    ]
    for call in calls:
        actual = call(lambda t: t.to("tpu"))
        torch.testing.assert_close(actual.cpu(), call(lambda t: t), rtol=2e-2, atol=2e-2)
