"""Factorisations, solves and functions of matrices."""

import pytest
import torch
from against_cpu import assert_agrees

import torch_tpu  # noqa: F401

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
SHAPES = [(2, 5, 5), (6, 3), (3, 6), (1, 1), (2, 0, 3, 3), (3, 0)]


def random(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    wide = torch.complex128 if dtype.is_complex else torch.float64
    return torch.randn(shape, generator=generator, dtype=wide).to(dtype)


def positive(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    a = random(*shape, dtype=dtype)
    return a @ a.mH + torch.eye(shape[-1], dtype=dtype)


def tolerance(dtype: torch.dtype) -> dict[str, float]:
    narrow = dtype in (torch.float32, torch.complex64)
    return {"rtol": 1e-3, "atol": 1e-4} if narrow else {"rtol": 1e-7, "atol": 1e-7}


def assert_reconstructs(product: torch.Tensor, a: torch.Tensor) -> None:
    torch.testing.assert_close(product.cpu(), a, **tolerance(a.dtype))


def assert_orthonormal(q: torch.Tensor) -> None:
    eye = torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1)
    torch.testing.assert_close((q.mH @ q).cpu(), eye, **tolerance(q.dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_solves_and_determinants_agree_with_cpu(dtype: torch.dtype) -> None:
    a, b = random(2, 5, 5, dtype=dtype), random(2, 5, 3, dtype=dtype)
    options = tolerance(dtype)
    assert_agrees(torch.linalg.solve, a, b, **options)
    assert_agrees(lambda m, x: torch.linalg.solve(m, x.mT, left=False), a, b, **options)
    assert_agrees(torch.linalg.solve, a, b[..., 0].contiguous(), **options)
    assert_agrees(torch.linalg.inv, a, **options)
    assert_agrees(torch.linalg.det, a, **options)
    assert_agrees(lambda m: torch.linalg.det(m.mT), a, **options)
    assert_agrees(torch.linalg.slogdet, a, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_lu_agrees_with_cpu(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = random(*shape, dtype=dtype)
    assert_agrees(torch.linalg.lu, a, gradients=shape != (3, 0), **tolerance(dtype))
    assert_agrees(torch.linalg.lu_factor_ex, a, gradients=False, **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_solve_agrees_with_cpu(left: bool, adjoint: bool, dtype: torch.dtype) -> None:
    factors, pivots = torch.linalg.lu_factor(random(2, 5, 5, dtype=dtype))
    b = random(2, 5, 5, dtype=dtype)
    assert_agrees(
        lambda f, x: torch.linalg.lu_solve(f, pivots.to(f.device), x, left=left, adjoint=adjoint),
        factors,
        b,
        **tolerance(dtype),
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky_and_its_solves_agree_with_cpu(dtype: torch.dtype) -> None:
    a, b = positive(2, 5, 5, dtype=dtype), random(2, 5, 3, dtype=dtype)
    options = tolerance(dtype)
    for upper in (False, True):
        assert_agrees(lambda m, u=upper: torch.linalg.cholesky(m, upper=u), a, **options)
        assert_agrees(lambda m, u=upper: torch.cholesky(m, upper=u), a, **options)
        factor = torch.linalg.cholesky(a, upper=upper)
        assert_agrees(lambda x, f, u=upper: torch.cholesky_solve(x, f, u), b, factor, **options)
        assert_agrees(lambda f, u=upper: torch.cholesky_inverse(f, u), factor, **options)


def test_cholesky_names_the_minor_that_is_not_positive() -> None:
    bad = torch.tensor([[1.0, 2, 3], [2, 1, 4], [3, 4, 1]])
    a = torch.stack([torch.eye(3), bad]).to("tpu")
    assert torch.linalg.cholesky_ex(a).info.tolist() == [0, 2]
    with pytest.raises(torch.linalg.LinAlgError, match="order 2"):
        torch.linalg.cholesky(a)
    with pytest.raises(torch.linalg.LinAlgError, match="cholesky"):
        torch.cholesky(a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangular_solves_agree_with_cpu(dtype: torch.dtype) -> None:
    a = random(2, 5, 5, dtype=dtype) + 4 * torch.eye(5, dtype=dtype)
    b = random(2, 5, 5, dtype=dtype)
    for upper in (False, True):
        for left in (False, True):
            for unit in (False, True):
                assert_agrees(
                    lambda m, x, u=upper, lf=left, un=unit: torch.linalg.solve_triangular(
                        m, x, upper=u, left=lf, unitriangular=un
                    ),
                    a / 3,
                    b,
                    **tolerance(dtype),
                )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr_agrees_with_cpu_in_every_mode(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = random(*shape, dtype=dtype)
    for mode in ("reduced", "complete", "r"):
        gradients = mode == "reduced" and shape[-2] >= shape[-1] > 0
        assert_agrees(
            lambda m, how=mode: torch.linalg.qr(m, how), a, gradients=gradients, **tolerance(dtype)
        )


@pytest.mark.parametrize("dtype", DTYPES)
def test_householder_products_agree_with_cpu(dtype: torch.dtype) -> None:
    a, tau = torch.geqrf(random(2, 5, 3, dtype=dtype))
    assert_agrees(torch.geqrf, random(2, 5, 3, dtype=dtype), gradients=False, **tolerance(dtype))
    assert_agrees(torch.linalg.householder_product, a, tau, **tolerance(dtype))
    c = random(2, 5, 4, dtype=dtype)
    assert_agrees(torch.ormqr, a, tau, c, gradients=False, **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("uplo", ["L", "U"])
def test_eigh_diagonalises_the_triangle_it_reads(uplo: str, dtype: torch.dtype) -> None:
    for shape in ((2, 6, 6), (1, 1), (0, 0), (3, 3)):
        a = random(*shape, dtype=dtype)
        half = a.tril(-1) if uplo == "L" else a.triu(1)
        diagonal = a.diagonal(dim1=-2, dim2=-1)
        diagonal = diagonal.real.to(dtype) if dtype.is_complex else diagonal
        whole = half + half.mH + torch.diag_embed(diagonal)
        values, vectors = torch.linalg.eigh(a.to("tpu"), UPLO=uplo)
        assert_reconstructs(vectors * values.unsqueeze(-2).to(dtype) @ vectors.mH, whole)
        assert_orthonormal(vectors)
        torch.testing.assert_close(values.cpu(), torch.linalg.eigvalsh(whole), **tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_svd_reconstructs_its_matrix(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    a = random(*shape, dtype=dtype)
    for full in (False, True):
        u, s, vh = torch.linalg.svd(a.to("tpu"), full_matrices=full)
        k = s.shape[-1]
        assert_reconstructs(u[..., :k] * s.unsqueeze(-2).to(dtype) @ vh[..., :k, :], a)
        assert_orthonormal(u)
        assert_orthonormal(vh.mH)
    torch.testing.assert_close(
        torch.linalg.svdvals(a.to("tpu")).cpu(), torch.linalg.svdvals(a), **tolerance(dtype)
    )


def test_svd_of_a_singular_matrix_has_orthonormal_factors() -> None:
    for a in (torch.zeros(4, 4), random(7, 2) @ random(2, 5), torch.ones(3, 3)):
        u, s, vh = torch.linalg.svd(a.to("tpu"))
        k = s.shape[-1]
        assert_reconstructs(u[:, :k] * s @ vh[:k], a)
        assert_orthonormal(u)
        assert_orthonormal(vh.mH)


@pytest.mark.parametrize("dtype", DTYPES)
def test_matrix_exponentials_agree_with_cpu_at_any_norm(dtype: torch.dtype) -> None:
    for scale in (0.01, 1.0, 4.0):
        assert_agrees(
            torch.linalg.matrix_exp, random(3, 4, 4, dtype=dtype) * scale, **tolerance(dtype)
        )
    assert_agrees(torch.linalg.matrix_exp, torch.zeros(3, 3, dtype=dtype))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.int64])
def test_cross_products_agree_with_cpu(dtype: torch.dtype) -> None:
    a = (random(2, 3, 4) * 5).to(dtype)
    b = (random(1, 3, 4) * 5).to(dtype)
    assert_agrees(lambda x, y: torch.linalg.cross(x, y, dim=1), a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd"])
def test_least_squares_agree_with_cpu(driver: str, dtype: torch.dtype) -> None:
    for rows, columns in ((6, 3), (3, 6), (4, 4)):
        a, b = random(2, rows, columns, dtype=dtype), random(2, rows, 2, dtype=dtype)
        for rhs in (b, b[..., 0].contiguous()):
            want = torch.linalg.lstsq(a, rhs, driver=driver)
            got = torch.linalg.lstsq(a.to("tpu"), rhs.to("tpu"), driver=driver)
            for x, y in zip(got, want, strict=True):
                torch.testing.assert_close(x.cpu(), y, **tolerance(dtype))
