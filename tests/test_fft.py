"""Discrete Fourier transforms."""

import pytest
import torch
from against_cpu import assert_agrees

import torch_tpu  # noqa: F401

NORMS = ["backward", "ortho", "forward"]


def random(*shape: int, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.complex128).to(dtype)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_complex_transforms_agree_with_cpu_along_any_dimensions(
    dtype: torch.dtype, norm: str
) -> None:
    x = random(3, 4, 5, 6, dtype=dtype)
    for dims in ([0], [-1], [1, 3], [0, 1, 2, 3]):
        for transform in (torch.fft.fftn, torch.fft.ifftn):
            assert_agrees(
                lambda v, f=transform, d=dims: f(v, dim=d, norm=norm), x, rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize("norm", NORMS)
def test_real_transforms_agree_with_cpu(norm: str) -> None:
    x = random(3, 8, 7).real.contiguous()
    assert_agrees(lambda v: torch.fft.rfft(v, norm=norm), x, rtol=1e-5, atol=1e-5)
    assert_agrees(lambda v: torch.fft.rfftn(v, dim=(0, 1), norm=norm), x, rtol=1e-5, atol=1e-5)
    assert_agrees(lambda v: torch.fft.ihfft(v, norm=norm), x, rtol=1e-5, atol=1e-5)
    for n in (7, 12, 20):
        assert_agrees(
            lambda v, n=n: torch.fft.irfft(v, n=n, norm=norm), random(3, 7), rtol=1e-5, atol=1e-5
        )


def test_stft_and_its_inverse_give_the_signal_back() -> None:
    x = random(400).real.contiguous().to("tpu")
    window = torch.hann_window(64, device="tpu")
    spectrum = torch.stft(x, 64, window=window, return_complex=True)
    torch.testing.assert_close(torch.istft(spectrum, 64, window=window), x, rtol=1e-4, atol=1e-5)
