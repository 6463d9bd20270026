"""Resizing of images and sampling at grids."""

import pytest
import torch
from against_cpu import assert_agrees
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as nf

import torch_tpu  # noqa: F401

CLOSE = {"rtol": 1e-4, "atol": 2e-5}


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(["nearest", "nearest-exact", "bilinear", "bicubic"]),
    st.integers(1, 13),
    st.integers(1, 13),
    st.booleans(),
)
def test_interpolation_to_a_size_agrees_with_cpu(
    mode: str, height: int, width: int, align_corners: bool
) -> None:
    aligned = {} if mode.startswith("nearest") else {"align_corners": align_corners}
    x = torch.randn(2, 3, 5, 6)
    assert_agrees(lambda x: nf.interpolate(x, (height, width), mode=mode, **aligned), x, **CLOSE)


@pytest.mark.parametrize("mode", ["nearest", "linear", "bilinear", "bicubic", "trilinear"])
@pytest.mark.parametrize("scale", [2, 0.5, 1.7])
def test_interpolation_by_a_factor_agrees_with_cpu(mode: str, scale: float) -> None:
    spatial = {"linear": 1, "trilinear": 3}.get(mode, 2)
    x = torch.randn(2, 2, *[6, 7, 8][:spatial])
    for recompute in (True, False):
        assert_agrees(
            lambda x, r=recompute: nf.interpolate(
                x, scale_factor=scale, mode=mode, recompute_scale_factor=r
            ),
            x,
            **CLOSE,
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 4), (9, 20)])
@pytest.mark.parametrize("align_corners", [False, True])
def test_antialiased_interpolation_agrees_with_cpu(
    mode: str, size: tuple[int, int], align_corners: bool
) -> None:
    x = torch.randn(1, 2, 8, 11)
    assert_agrees(
        lambda x: nf.interpolate(x, size, mode=mode, antialias=True, align_corners=align_corners),
        x,
        **CLOSE,
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [True, False])
def test_grid_sample_agrees_with_cpu(mode: str, padding: str, align_corners: bool) -> None:
    torch.manual_seed(3)
    assert_agrees(
        lambda x, grid: nf.grid_sample(x, grid, mode, padding, align_corners),
        torch.randn(2, 3, 5, 6),
        torch.rand(2, 4, 7, 2) * 4 - 2,
        **CLOSE,
    )


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_volumetric_grid_sample_agrees_with_cpu(padding: str) -> None:
    torch.manual_seed(4)
    assert_agrees(
        lambda x, grid: nf.grid_sample(x, grid, "bilinear", padding, False),
        torch.randn(2, 2, 3, 4, 5),
        torch.rand(2, 3, 4, 2, 3) * 4 - 2,
        **CLOSE,
    )


def test_samples_outside_the_image_do_not_see_its_nan() -> None:
    image = torch.full((1, 1, 2, 2), torch.nan)
    grid = torch.full((1, 1, 1, 2), 5.0)
    assert_agrees(lambda x, g: nf.grid_sample(x, g, align_corners=False), image, grid)
