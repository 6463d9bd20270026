"""Random numbers: distributions, ranges, and dependence on the seed alone."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import special, stats

import torch_tpu  # noqa: F401

N = 20000
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def empty(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(N, dtype=dtype, device="tpu")


@pytest.mark.parametrize(
    ("draw", "distribution"),
    [
        (lambda x: x.uniform_(2, 5), stats.uniform(2, 3)),
        (lambda x: x.normal_(1, 2), stats.norm(1, 2)),
        (lambda x: x.exponential_(2), stats.expon(0, 0.5)),
        (lambda x: x.cauchy_(1, 2), stats.cauchy(1, 2)),
        (lambda x: x.log_normal_(1, 0.5), stats.lognorm(0.5, 0, math.e)),
        (lambda x: torch._standard_gamma(x.fill_(0.3)), stats.gamma(0.3)),
        (lambda x: torch._standard_gamma(x.fill_(7.0)), stats.gamma(7.0)),
    ],
)
def test_continuous_draws_follow_their_distribution(draw, distribution) -> None:
    for dtype in (torch.float32, torch.float64):
        sample = draw(empty(dtype)).double().cpu().numpy()
        assert stats.kstest(sample, distribution.cdf).pvalue > 1e-4


@pytest.mark.parametrize(
    ("draw", "distribution"),
    [
        (lambda x: x.geometric_(0.3), stats.geom(0.3)),
        (lambda x: torch.poisson(x.fill_(4.0)), stats.poisson(4.0)),
        (lambda x: torch.poisson(x.fill_(60.0)), stats.poisson(60.0)),
        (lambda x: torch.binomial(x.fill_(20.0), x * 0 + 0.3), stats.binom(20, 0.3)),
        (lambda x: torch.binomial(x.fill_(90.0), x * 0 + 0.7), stats.binom(90, 0.7)),
        (lambda x: x.random_(-3, 8), stats.randint(-3, 8)),
        (lambda x: x.bernoulli_(0.3), stats.bernoulli(0.3)),
        (lambda x: torch.bernoulli(x.fill_(0.8)), stats.bernoulli(0.8)),
    ],
)
def test_discrete_draws_follow_their_distribution(draw, distribution) -> None:
    sample = draw(empty()).cpu()
    values = torch.arange(int(distribution.ppf(1e-4)), int(distribution.ppf(1 - 1e-4)) + 1)
    expected = torch.tensor(distribution.pmf(values.numpy())) * N
    seen = (sample.unsqueeze(0) == values.unsqueeze(1)).sum(1)
    enough = expected > 5
    chi2 = ((seen - expected)[enough] ** 2 / expected[enough]).sum().item()
    assert stats.chi2.sf(chi2, int(enough.sum()) - 1) > 1e-4


@pytest.mark.parametrize("dtype", FLOATS)
def test_uniform_never_reaches_its_upper_end(dtype: torch.dtype) -> None:
    x = torch.empty(300000, dtype=dtype, device="tpu")
    for low, high in ((0.0, 1.0), (1.0, 1.5), (-3.0, 3.0)):
        x.uniform_(low, high)
        assert low <= x.min().item()
        assert x.max().item() < high


def test_integers_cover_the_whole_range_of_their_type() -> None:
    x = torch.empty(100000, dtype=torch.int64, device="tpu").random_(-(2**63), None)
    assert x.min().item() < -(2**62)
    assert x.max().item() > 2**62
    assert torch.empty(2000, dtype=torch.uint8, device="tpu").random_().unique().numel() > 250
    assert torch.empty(99, dtype=torch.bool, device="tpu").random_().unique().numel() == 2


@pytest.mark.parametrize("n", [0, 1, 2, 1000, 20000])
def test_randperm_is_a_permutation(n: int) -> None:
    x = torch.randperm(n, device="tpu").cpu()
    assert bool((x.sort()[0] == torch.arange(n)).all())
    assert n < 3 or bool((x != torch.arange(n)).any())


def test_the_seed_decides_and_the_state_continues() -> None:
    torch.manual_seed(3)
    first = torch.rand(1000, device="tpu")
    state = torch.tpu.get_rng_state()
    second = torch.randn(1000, device="tpu")
    torch.manual_seed(3)
    assert torch.equal(torch.rand(1000, device="tpu"), first)
    assert torch.equal(torch.randn(1000, device="tpu"), second)
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.randn(1000, device="tpu"), second)


def test_dropout_scales_what_it_keeps_and_its_gradient_agrees() -> None:
    x = torch.ones(N, device="tpu", requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    kept = y != 0
    assert abs(kept.float().mean().item() - 0.75) < 0.02
    torch.testing.assert_close(y, kept.float() / 0.75)
    y.sum().backward()
    torch.testing.assert_close(x.grad, kept.float() / 0.75)
    assert bool((torch.nn.functional.dropout(x, 1.0) == 0).all())


def test_the_gradient_of_dropout_of_booleans_is_floating() -> None:
    grad, mask = torch.tensor([True, True, False]), torch.tensor([True, False, True])
    for scale in (0.5, 2.0):
        expected = torch.ops.aten.native_dropout_backward(grad, mask, scale)
        actual = torch.ops.aten.native_dropout_backward(grad.to("tpu"), mask.to("tpu"), scale)
        torch.testing.assert_close(actual.cpu(), expected)


def test_multinomial_draws_in_proportion_and_never_the_impossible() -> None:
    weights = torch.tensor([0.0, 1.0, 2.0, 3.0, 0.0], device="tpu")
    share = torch.tensor([0.0, 1 / 6, 1 / 3, 1 / 2, 0.0])
    drawn = torch.multinomial(weights, N, replacement=True).cpu()
    counts = torch.bincount(drawn, minlength=5) / N
    torch.testing.assert_close(counts, share, atol=0.02, rtol=0)
    single = torch.multinomial(weights.expand(N, 5), 1).cpu().flatten()
    torch.testing.assert_close(torch.bincount(single, minlength=5) / N, share, atol=0.02, rtol=0)
    three = torch.multinomial(weights.expand(50, 5), 3).cpu()
    assert bool((three.sort(1)[0] == torch.tensor([1, 2, 3])).all())


def test_rrelu_uses_the_slopes_it_reports() -> None:
    x = torch.randn(N, device="tpu", requires_grad=True)
    y = torch.nn.functional.rrelu(x, 0.1, 0.3, training=True)
    y.sum().backward()
    slope = (y / x).detach()
    negative = x < 0
    assert slope[negative].min().item() >= 0.1
    assert slope[negative].max().item() <= 0.3001
    torch.testing.assert_close(x.grad, slope, rtol=1e-5, atol=1e-6)
    evaluated = torch.nn.functional.rrelu(x, 0.1, 0.3)
    torch.testing.assert_close(evaluated, torch.where(negative, x * 0.2, x))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_both_parts_of_complex_numbers_are_uniform(dtype: torch.dtype) -> None:
    x = torch.empty(N, dtype=dtype, device="tpu").uniform_(-1, 3).cpu()
    for part in (x.real, x.imag):
        assert part.min().item() >= -1
        assert part.max().item() < 3
        assert abs(part.mean().item() - 1) < 0.05
    assert abs(torch.corrcoef(torch.stack([x.real, x.imag]))[0, 1].item()) < 0.05


def slope_of_quantile(
    lower: Callable[[np.ndarray], np.ndarray],
    upper: Callable[[np.ndarray], np.ndarray],
    a: np.ndarray,
    log_density: np.ndarray,
    beyond: np.ndarray,
) -> torch.Tensor:
    """-(dF/da) / p by fourth-order differences of the smaller tail."""

    def f(a: np.ndarray) -> np.ndarray:
        return np.where(beyond, -upper(a), lower(a))

    h = 1e-5 * a
    change = (8 * (f(a + h) - f(a - h)) - (f(a + 2 * h) - f(a - 2 * h))) / (12 * h)
    return torch.from_numpy(-change / np.exp(log_density))


@pytest.mark.parametrize("shape", [0.01, 0.5, 2.0, 8.0, 50.0, 5e4, 2e5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_gradient_of_gamma_draws_is_that_of_their_quantile(
    shape: float, dtype: torch.dtype
) -> None:
    x = np.random.default_rng(0).gamma(shape, size=200)
    x = x[x > 1e-30]
    a = np.full_like(x, shape)
    expected = slope_of_quantile(
        lambda a: special.gammainc(a, x),
        lambda a: special.gammaincc(a, x),
        a,
        (a - 1) * np.log(x) - x - special.gammaln(a),
        x > a,
    )
    arguments = [torch.from_numpy(v).to(dtype).to("tpu") for v in (a, x)]
    actual = torch._standard_gamma_grad(*arguments).cpu()
    assert actual.dtype == dtype
    close = 1e-7 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(actual.double(), expected, rtol=close, atol=0)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (0.1, 3), (3, 0.1), (2, 5), (50, 1), (300, 200)])
def test_the_gradient_of_dirichlet_draws_is_that_of_their_quantile(a: float, b: float) -> None:
    x = np.random.default_rng(0).beta(a, b, size=200)
    x = x[(x > 1e-20) & (x < 1 - 1e-6)]
    alpha = np.full_like(x, a)
    expected = slope_of_quantile(
        lambda alpha: special.betainc(alpha, b, x),
        lambda alpha: special.betaincc(alpha, b, x),
        alpha,
        (a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - special.betaln(a, b),
        x > a / (a + b),
    ) / torch.from_numpy(1 - x)
    arguments = [torch.from_numpy(v).to("tpu") for v in (x, alpha, alpha + b)]
    actual = torch._dirichlet_grad(*arguments).cpu()
    torch.testing.assert_close(actual, expected, rtol=1e-7, atol=0)


def test_gradients_of_draws_at_the_edges_are_finite() -> None:
    alpha = torch.tensor([1e-3, 2.0], device="tpu")
    assert torch._standard_gamma_grad(alpha, torch.zeros_like(alpha)).tolist() == [0, 0]
    one = torch.ones(3, 1, device="tpu", requires_grad=True)
    draw = torch.distributions.Dirichlet(one).rsample()
    draw.sum().backward()
    assert draw.tolist() == [[1.0]] * 3
    assert one.grad is not None
    assert one.grad.tolist() == [[0.0]] * 3


def test_draws_that_have_gradients_run_on_the_device() -> None:
    torch.tpu.reset_fallback_report()
    concentration = torch.rand(100, 4, device="tpu").add_(0.1).requires_grad_()
    for family in (torch.distributions.Dirichlet, torch.distributions.Exponential):
        family(concentration).rsample().square().sum().backward()
    gamma = torch.distributions.Gamma(concentration, concentration).rsample()
    gamma.square().sum().backward()
    assert bool(concentration.grad.isfinite().all())
    assert torch.tpu.fallback_report() == {}
