#include "lowering/special.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/families.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"
#include "lowering/special_coefficients.h"

namespace torch_tpu::lowering {

namespace {
constexpr double kInf = std::numeric_limits<double>::infinity();
}  // namespace

Value chebyshev_series(Lowering& b, Value t, std::span<const double> coefficients) {
  Value twice = b.add(t, t);
  Value next = b.zeros_like(t);
  Value here = b.full_like(t, coefficients.back());
  for (size_t n = coefficients.size() - 1; n > 1; --n) {
    Value before = b.add_scalar(b.subtract(b.multiply(twice, here), next), coefficients[n - 1]);
    next = here;
    here = before;
  }
  return b.add_scalar(b.subtract(b.multiply(t, here), next), coefficients[0]);
}

Value lgamma(Lowering& b, Value x) { return b.chlo("lgamma", x); }

// -infinity with the sign of -x at zero, where the reflection formula gives NaN.
Value digamma(Lowering& b, Value x) {
  Value at_zero = b.select(is_negative(b, x), b.full_like(x, kInf), b.full_like(x, -kInf));
  return b.select(equals(b, x, 0), at_zero, b.chlo("digamma", x));
}

// A series for x >= 0; erfcx(-x) = 2 exp(x^2) - erfcx(x).
Value erfcx(Lowering& b, Value x) {
  Value size = b.abs(x);
  Value t = b.divide(b.add_scalar(size, -3.75), b.add_scalar(size, 3.75));
  t = where_constant(b, is_inf(b, x), 1, t);
  Value series = chebyshev_series(b, t, kErfcx);
  Value positive = b.divide(series, b.add_scalar(b.add(size, size), 1));
  Value negative = b.subtract(b.mul_scalar(b.exp(square(b, x)), 2), positive);
  return b.select(less(b, x, 0), negative, positive);
}

Value log_ndtr(Lowering& b, Value x) {
  Value scaled = b.mul_scalar(x, std::numbers::sqrt2 / 2);
  Value tail = b.subtract(b.log(b.mul_scalar(erfcx(b, b.negate(scaled)), 0.5)), square(b, scaled));
  Value centre = b.log1p(b.mul_scalar(b.chlo("erfc", scaled), -0.5));
  return b.select(less(b, x, -1), tail, centre);
}

namespace {

// --- the Gaussian quantile

// A first guess (Abramowitz and Stegun 26.2.23), improved by Halley's method on log_ndtr, where
// even the far tail is well conditioned: with r = phi / Phi, u = (log Phi - log p) / r, x <- x - u
// / (1 + u (x + r) / 2).
Value lower_quantile(Lowering& b, Value p) {
  Value log_p = b.log(p);
  Value t = b.sqrt(b.mul_scalar(log_p, -2));
  constexpr double kTop[] = {0.010328, 0.802853, 2.515517};
  constexpr double kBottom[] = {0.001308, 0.189269, 1.432788, 1.0};
  Value x = b.subtract(b.divide(polynomial(b, t, kTop), polynomial(b, t, kBottom)), t);
  for (int i = 0; i < 2; ++i) {
    Value log_cdf = log_ndtr(b, x);
    Value log_density =
        b.add_scalar(b.mul_scalar(square(b, x), -0.5), -0.5 * std::log(2 * std::numbers::pi));
    Value ratio = b.exp(b.subtract(log_density, log_cdf));
    Value u = b.divide(b.subtract(log_cdf, log_p), ratio);
    Value bend = b.add_scalar(b.mul_scalar(b.multiply(u, b.add(x, ratio)), 0.5), 1);
    x = b.subtract(x, b.divide(u, bend));
  }
  return x;
}

Value ndtri(Lowering& b, Value p) {
  Value upper = greater(b, p, 0.5);
  Value lower_p = b.select(upper, complement(b, p), p);
  Value x = lower_quantile(b, lower_p);
  x = where_constant(b, equals(b, lower_p, 0), -kInf, x);
  return b.select(upper, b.negate(x), x);
}

// --- gamma and zeta

// Reflection below 1/2, six steps up, then the asymptotic series (Abramowitz and Stegun 6.4.12).
Value trigamma(Lowering& b, Value x) {
  Value reflect = less(b, x, 0.5);
  Value y = b.select(reflect, complement(b, x), x);
  Value sum = b.zeros_like(x);
  for (int i = 0; i < 6; ++i) {
    sum = b.add(sum, reciprocal(b, square(b, y)));
    y = b.add_scalar(y, 1);
  }
  constexpr double kBernoulli[] = {-1.0 / 30, 1.0 / 42, -1.0 / 30, 1.0 / 6, 1.0};
  Value inverse = reciprocal(b, y);
  Value inverse_square = square(b, inverse);
  Value series = b.add(polynomial(b, inverse_square, kBernoulli), b.mul_scalar(inverse, 0.5));
  sum = b.add(sum, b.multiply(series, inverse));
  Value sine = b.sine(b.mul_scalar(x, std::numbers::pi));
  Value mirror = b.divide(b.full_like(x, std::numbers::pi * std::numbers::pi), square(b, sine));
  return b.select(reflect, b.subtract(mirror, sum), sum);
}

// sum of (q + k)^-x by Euler and Maclaurin (DLMF 25.11.28): terms until q + k > 9, then the tail,
// in float64 where that is cheap. Poles of negative q are stepped over, which takes a loop.
Value zeta(Lowering& b, Value x, Value q) {
  b.broadcast_pair(x, q);
  const DType dtype = x.dtype();
  if (b.settings().is_cpu) {
    x = b.convert(x, DType::kF64);
    q = b.convert(q, DType::kF64);
  }
  Value minus_x = b.negate(x);
  Value pole = b.and_(less_equal(b, q, 0), b.compare(q, b.floor(q), Compare::kEq));
  Value undefined = b.and_(less_equal(b, q, 0), b.compare(x, b.floor(x), Compare::kNe));
  undefined = b.or_(undefined, less(b, x, 1));
  Value start = where_constant(b, b.or_(pole, undefined), 1, q);
  const Value init[] = {b.constant_int(DType::kS32, 0), start, b.power(start, minus_x)};
  auto open = [&](Value count, Value at) {
    Value early = b.broadcast(less(b, count, 9), at.shape());
    return b.or_(early, less_equal(b, at, 9));
  };
  const Values end = b.while_loop(
      init,
      [&](std::span<const Value> s) -> Values {
        return {b.any(open(s[0], s[1]), Lowering::all_dims(s[1].rank()))};
      },
      [&](std::span<const Value> s) -> Values {
        Value going = open(s[0], s[1]);
        Value at = b.select(going, b.add_scalar(s[1], 1), s[1]);
        Value term = where_constant(b, going, b.power(at, minus_x), 0);
        return {b.add_scalar(s[0], 1), at, b.add(s[2], term)};
      });
  Value at = end[1];
  Value power = b.power(at, minus_x);
  Value sum = b.add(end[2], b.divide(b.multiply(power, at), b.add_scalar(x, -1)));
  sum = b.subtract(sum, b.mul_scalar(power, 0.5));
  constexpr double kBernoulli[] = {
      1.0 / 6, -1.0 / 30,     1.0 / 42,      -1.0 / 30,       5.0 / 66,       -691.0 / 2730,
      7.0 / 6, -3617.0 / 510, 43867.0 / 798, -174611.0 / 330, 854513.0 / 138, -236364091.0 / 2730};
  Value rising = x;  // x (x + 1) ... (x + 2 k)
  power = b.divide(power, at);
  double factorial = 1;
  for (int k = 0; k < 12; ++k) {
    factorial *= (2 * k + 1) * (2 * k + 2);
    sum = b.add(sum, b.mul_scalar(b.multiply(rising, power), kBernoulli[k] / factorial));
    rising = b.multiply(rising, b.multiply(b.add_scalar(x, 2 * k + 1), b.add_scalar(x, 2 * k + 2)));
    power = b.divide(power, square(b, at));
  }
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  sum = where_constant(b, undefined, kNaN, sum);
  sum = where_constant(b, b.or_(pole, equals(b, x, 1)), kInf, sum);
  return b.convert(where_constant(b, less(b, x, 1), kNaN, sum), dtype);
}

// (-1)^(n + 1) n! zeta(n + 1, x)
Value polygamma(Lowering& b, int64_t n, Value x) {
  if (is_integral(x.dtype())) x = b.convert(x, DType::kF32);  // n would take part in promotion
  TT_CHECK(n >= 0, kInvalidArgument, "polygamma(n, x) does not support negative n.");
  if (n == 0) return digamma(b, x);
  if (n == 1) return trigamma(b, x);
  const auto order = static_cast<double>(n);
  const double factorial = std::exp(std::lgamma(order + 1));
  Value z = zeta(b, b.full_like(x, order + 1), x);
  return b.mul_scalar(z, n % 2 == 1 ? factorial : -factorial);
}

// --- products with logarithms: 0 where the factor is 0, NaN where the argument is NaN

Value x_times(Lowering& b, Value x, Value log_y, Value y) {
  Value product = where_constant(b, equals(b, x, 0), 0, b.multiply(x, log_y));
  return b.select(b.is_nan(y), y, product);
}

Value xlogy(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return x_times(b, x, b.log(y), y);
}

Value xlog1py(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return x_times(b, x, b.log1p(y), y);
}

Value entr(Lowering& b, Value x) {
  Value inside = b.negate(b.multiply(x, b.log(x)));
  Value y = where_constant(b, less(b, x, 0), -kInf, where_constant(b, equals(b, x, 0), 0, inside));
  return b.select(b.is_nan(x), x, y);
}

}  // namespace

void register_special(OperatorTable& table) {
  constexpr RuleOptions kMath{.promotion = Promotion::kFloat, .opmath = true};
  table.add("erf", [](Lowering& b, Value x) { return b.chlo("erf", x); }, kMath);
  table.add("erfc", [](Lowering& b, Value x) { return b.chlo("erfc", x); }, kMath);
  table.add("erfinv", [](Lowering& b, Value x) { return b.chlo("erf_inv", x); }, kMath);
  table.add("special_erfcx", erfcx, kMath);
  table.add("special_ndtri", ndtri, kMath);
  table.add("special_log_ndtr", log_ndtr, kMath);
  table.add("lgamma", lgamma, kMath);
  table.add("digamma", digamma, kMath);
  table.add("polygamma", polygamma, {.opmath = true});
  table.add("special_zeta", zeta, kMath);
  table.add("special_zeta.other_scalar", with_number<zeta>, kMath);
  table.add("special_zeta.self_scalar", number_first<zeta>, kMath);
  table.add("xlogy.Tensor", xlogy, kMath);
  table.add("xlogy.Scalar_Other", with_number<xlogy>, kMath);
  table.add("xlogy.Scalar_Self", number_first<xlogy>, kMath);
  table.add("special_xlog1py", xlog1py, kMath);
  table.add("special_xlog1py.other_scalar", with_number<xlog1py>, kMath);
  table.add("special_xlog1py.self_scalar", number_first<xlog1py>, kMath);
  table.add("special_entr", entr, kMath);

  register_bessel(table);
  register_incomplete_gamma(table);
  register_orthogonal_polynomials(table);
}

}  // namespace torch_tpu::lowering
