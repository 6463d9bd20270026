"""Special functions against the CPU over their domains."""

import pytest
import scipy.special
import torch

import torch_tpu  # noqa: F401

UNARY = {
    "erf": (-5, 5), "erfc": (-5, 5), "erfinv": (-0.999, 0.999), "erfcx": (-4, 60),
    "digamma": (0.05, 40), "gammaln": (0.05, 40), "entr": (0, 5), "log_ndtr": (-40, 6),
    "ndtri": (1e-6, 0.999), "i0": (-30, 30), "i0e": (-90, 90), "i1": (-30, 30), "i1e": (-90, 90),
    "bessel_j0": (-30, 30), "bessel_j1": (-30, 30), "bessel_y0": (0.1, 30), "bessel_y1": (0.1, 30),
    "modified_bessel_k0": (0.05, 30), "modified_bessel_k1": (0.05, 30),
    "scaled_modified_bessel_k0": (0.05, 90), "scaled_modified_bessel_k1": (0.05, 90),
    "spherical_bessel_j0": (-20, 20), "airy_ai": (-9, 8), "sinc": (-4, 4),
}  # fmt: skip


# PyTorch's own kernels are good to 1e-6 only.
ORACLES = {
    "bessel_j0": scipy.special.j0,
    "bessel_j1": scipy.special.j1,
    "bessel_y0": scipy.special.y0,
    "bessel_y1": scipy.special.y1,
    "airy_ai": lambda x: scipy.special.airy(x)[0],
}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument_in_float32(name):
    f = getattr(torch.special, name)
    x = torch.linspace(*UNARY[name], 301)
    torch.testing.assert_close(f(x.to("tpu")).cpu(), f(x))


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_argument_in_float64(name):
    f = getattr(torch.special, name)
    x = torch.linspace(*UNARY[name], 301, dtype=torch.float64)
    expected = torch.as_tensor(ORACLES[name](x.numpy())) if name in ORACLES else f(x)
    torch.testing.assert_close(f(x.to("tpu")).cpu(), expected)


@pytest.mark.parametrize("kind", "tuvw")
@pytest.mark.parametrize("shifted", ["", "shifted_"])
def test_chebyshev_polynomials_of_mixed_degrees(kind, shifted):
    f = getattr(torch.special, f"{shifted}chebyshev_polynomial_{kind}")
    x = torch.linspace(-1.2, 1.2, 25, dtype=torch.float64)[:, None]
    n = torch.arange(-1, 12, dtype=torch.float64)
    torch.testing.assert_close(f(x.to("tpu"), n.to("tpu")).cpu(), f(x, n))


@pytest.mark.parametrize(
    "name",
    [
        "hermite_polynomial_h",
        "hermite_polynomial_he",
        "laguerre_polynomial_l",
        "legendre_polynomial_p",
    ],
)
def test_orthogonal_polynomials_of_mixed_degrees(name):
    f = getattr(torch.special, name)
    x = torch.linspace(-1.5, 1.5, 25, dtype=torch.float64)[:, None]
    n = torch.arange(-1, 10, dtype=torch.float64)
    torch.testing.assert_close(f(x.to("tpu"), n.to("tpu")).cpu(), f(x, n))


@pytest.mark.parametrize("name", ["gammainc", "gammaincc"])
def test_incomplete_gamma_functions_and_their_limits(name):
    f = getattr(torch.special, name)
    a = torch.tensor([0.0, 0.1, 1.0, 5.0, 80.0, 300.0, float("inf")], dtype=torch.float64)[:, None]
    x = torch.tensor([0.0, 0.05, 1.0, 4.0, 90.0, 310.0, float("inf")], dtype=torch.float64)
    torch.testing.assert_close(f(a.to("tpu"), x.to("tpu")).cpu(), f(a, x), equal_nan=True)


def test_zeta_and_polygamma():
    x = torch.linspace(1.5, 9, 16, dtype=torch.float64)
    torch.testing.assert_close(
        torch.special.zeta(x.to("tpu"), 2.5).cpu(), torch.special.zeta(x, 2.5)
    )
    for n in range(4):
        torch.testing.assert_close(torch.polygamma(n, x.to("tpu")).cpu(), torch.polygamma(n, x))


def test_products_with_logarithms_are_zero_where_the_factor_is():
    x = torch.tensor([0.0, 0.0, 1.0, 2.0])
    y = torch.tensor([0.0, float("nan"), 0.0, 3.0])
    for f in (torch.special.xlogy, torch.special.xlog1py):
        torch.testing.assert_close(f(x.to("tpu"), y.to("tpu")).cpu(), f(x, y), equal_nan=True)
