#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/operator_table.h"
#include "lowering/pointwise.h"
#include "lowering/special.h"
#include "lowering/special_coefficients.h"

namespace torch_tpu::lowering {
namespace {

// Each function is a series for small arguments and one in 1 / x times the leading asymptotic term
// for large ones (special_coefficients.h says of what). Definitions: Abramowitz and Stegun,
// chapters 9, 10.

using std::numbers::pi;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Fits {
  std::span<const double> small, large;
};
constexpr Fits kI0{kBesselI0Small, kBesselI0Large};
constexpr Fits kI1{kBesselI1Small, kBesselI1Large};
constexpr Fits kK0{kBesselK0Small, kBesselK0Large};
constexpr Fits kK1{kBesselK1Small, kBesselK1Large};

// 2 start / x - 1
Value inverse_argument(Lowering& b, Value x, double start) {
  return b.add_scalar(b.divide(b.full_like(x, 2 * start), x), -1);
}

// 2 (x / end)^2 - 1
Value square_argument(Lowering& b, Value x, double end) {
  return b.add_scalar(b.mul_scalar(square(b, x), 2 / (end * end)), -1);
}

// --- I0 and I1

// exp(-|x|) I0(|x|), or I1(|x|) / |x| * |x|
Value scaled_i(Lowering& b, Value size, const Fits& fits, bool odd) {
  Value small = chebyshev_series(b, b.add_scalar(b.mul_scalar(size, 0.25), -1), fits.small);
  if (odd) small = b.multiply(small, size);
  Value safe = b.maximum(size, b.full_like(size, 8));
  Value large =
      b.divide(chebyshev_series(b, inverse_argument(b, safe, 8), fits.large), b.sqrt(safe));
  return b.select(less_equal(b, size, 8), small, large);
}

// exp(a) y; where exp(a) overflows the product may still be finite, so half of it comes last.
Value times_exp(Lowering& b, Value y, Value a) {
  Value half = b.exp(b.mul_scalar(a, 0.5));
  return b.multiply(b.multiply(y, half), half);
}

Value i0e(Lowering& b, Value x) { return scaled_i(b, b.abs(x), kI0, false); }

Value i0(Lowering& b, Value x) { return times_exp(b, i0e(b, x), b.abs(x)); }

Value i1e(Lowering& b, Value x) {
  Value y = scaled_i(b, b.abs(x), kI1, true);
  return b.select(less(b, x, 0), b.negate(y), y);
}

Value i1(Lowering& b, Value x) { return times_exp(b, i1e(b, x), b.abs(x)); }

// --- K0 and K1: infinite at 0, NaN below

// x^odd (fit + sign log(x / 2) I(x)), I without its scaling factor.
Value small_k(Lowering& b, Value x, bool odd) {
  Value log_half = b.log(b.mul_scalar(x, 0.5));
  Value fit = chebyshev_series(b, square_argument(b, x, 2), odd ? kK1.small : kK0.small);
  return odd ? b.add(b.divide(fit, x), b.multiply(log_half, i1(b, x)))
             : b.subtract(fit, b.multiply(log_half, i0(b, x)));
}

Value bessel_k(Lowering& b, Value x, bool odd, bool scaled) {
  Value near = b.minimum(x, b.full_like(x, 2));
  Value small = small_k(b, near, odd);
  if (scaled) small = b.multiply(small, b.exp(near));
  Value far = b.maximum(x, b.full_like(x, 2));
  Value series = chebyshev_series(b, inverse_argument(b, far, 2), odd ? kK1.large : kK0.large);
  Value large = b.divide(series, b.sqrt(far));
  if (!scaled) large = b.multiply(large, b.exp(b.negate(far)));
  Value y = b.select(less_equal(b, x, 2), small, large);
  y = where_constant(b, equals(b, x, 0), kInf, y);
  return where_constant(b, less(b, x, 0), kNaN, y);
}

// --- J and Y

// P, Q of the asymptotic forms at x >= 8 and the amplitude sqrt(2 / (pi x)).
struct Wave {
  Value p, q, amplitude, sine, cosine;
};

Wave wave(Lowering& b, Value size, int order) {
  Value x = b.maximum(size, b.full_like(size, 8));
  Value inverse = b.divide(b.full_like(x, 8), x);
  Value t = b.add_scalar(b.mul_scalar(square(b, inverse), 2), -1);
  Value chi = b.add_scalar(x, -(2 * order + 1) * pi / 4);
  Value p = chebyshev_series(b, t, order == 0 ? std::span<const double>(kHankel0P) : kHankel1P);
  Value q = chebyshev_series(b, t, order == 0 ? std::span<const double>(kHankel0Q) : kHankel1Q);
  Value amplitude = b.sqrt(b.divide(b.full_like(x, 2 / pi), x));
  return {p, b.multiply(q, inverse), amplitude, b.sine(chi), b.cosine(chi)};
}

Value large_j(Lowering& b, const Wave& w) {
  return b.multiply(w.amplitude, b.subtract(b.multiply(w.p, w.cosine), b.multiply(w.q, w.sine)));
}

Value large_y(Lowering& b, const Wave& w) {
  return b.multiply(w.amplitude, b.add(b.multiply(w.p, w.sine), b.multiply(w.q, w.cosine)));
}

Value small_j(Lowering& b, Value x, int order) {
  Value t = square_argument(b, x, 8);
  if (order == 0) return chebyshev_series(b, t, kBesselJ0Small);
  return b.multiply(x, chebyshev_series(b, t, kBesselJ1Small));
}

Value bessel_j0(Lowering& b, Value x) {
  Value size = b.abs(x);
  Value small = small_j(b, b.minimum(size, b.full_like(size, 8)), 0);
  return b.select(less_equal(b, size, 8), small, large_j(b, wave(b, size, 0)));
}

Value bessel_j1(Lowering& b, Value x) {
  Value size = b.abs(x);
  Value small = small_j(b, b.minimum(size, b.full_like(size, 8)), 1);
  Value y = b.select(less_equal(b, size, 8), small, large_j(b, wave(b, size, 1)));
  return b.select(less(b, x, 0), b.negate(y), y);
}

// -infinity at 0, NaN below
Value bessel_y(Lowering& b, Value x, int order) {
  Value near = b.minimum(x, b.full_like(x, 8));
  Value t = square_argument(b, near, 8);
  Value log_part = b.multiply(b.log(near), small_j(b, near, order));
  Value small;
  if (order == 0) {
    small = b.add(chebyshev_series(b, t, kBesselY0Small), b.mul_scalar(log_part, 2 / pi));
  } else {
    Value fit = b.multiply(near, chebyshev_series(b, t, kBesselY1Small));
    small = b.add(fit, b.mul_scalar(b.subtract(log_part, reciprocal(b, near)), 2 / pi));
  }
  Value y = b.select(less_equal(b, x, 8), small, large_y(b, wave(b, x, order)));
  y = where_constant(b, equals(b, x, 0), -kInf, y);
  return where_constant(b, less(b, x, 0), kNaN, y);
}

// sin(x) / x, 0 at infinity
Value spherical_j0(Lowering& b, Value x) {
  constexpr double kSeries[] = {1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040,
                                1.0 / 120,        -1.0 / 6,        1.0};  // 1/13!, -1/11!, ..., 1
  Value small = polynomial(b, square(b, x), kSeries);
  Value large = b.divide(b.sine(x), where_constant(b, equals(b, x, 0), 1, x));
  Value y = b.select(less(b, b.abs(x), 0.5), small, large);
  return where_constant(b, is_inf(b, x), 0, y);
}

// --- Airy's Ai

// Around 0 a series, above 2 exp(-zeta), below -2 a wave, zeta = 2/3 |x|^(3/2).
Value airy_ai(Lowering& b, Value x) {
  Value size = b.maximum(b.abs(x), b.full_like(x, 2));
  Value zeta = b.mul_scalar(b.multiply(size, b.sqrt(size)), 2.0 / 3);
  const double split = 2.0 / 3 * 2 * std::numbers::sqrt2;
  Value inverse = b.divide(b.full_like(x, split), zeta);  // in (0, 1]
  Value root4 = b.sqrt(b.sqrt(size));

  Value decay_fit = chebyshev_series(b, b.add_scalar(b.mul_scalar(inverse, 2), -1), kAiryDecay);
  Value decay = b.divide(b.multiply(decay_fit, b.exp(b.negate(zeta))),
                         b.mul_scalar(root4, 2 * std::sqrt(pi)));

  Value t = b.add_scalar(b.mul_scalar(square(b, inverse), 2), -1);
  Value theta = b.add_scalar(zeta, pi / 4);
  Value p = b.multiply(chebyshev_series(b, t, kAiryP), b.sine(theta));
  Value q = b.multiply(b.divide(chebyshev_series(b, t, kAiryQ), zeta), b.cosine(theta));
  Value waves = b.divide(b.subtract(p, q), b.mul_scalar(root4, std::sqrt(pi)));

  Value near = b.maximum(b.minimum(x, b.full_like(x, 2)), b.full_like(x, -2));
  Value centre = chebyshev_series(b, b.mul_scalar(near, 0.5), kAirySmall);
  Value outside = b.select(less(b, x, 0), waves, decay);
  Value y = b.select(less_equal(b, b.abs(x), 2), centre, outside);
  y = where_constant(b, equals(b, x, kInf), 0, y);
  return b.select(b.is_nan(x), x, y);
}

template <bool Odd, bool Scaled>
Value bessel_k_rule(Lowering& b, Value x) {
  return bessel_k(b, x, Odd, Scaled);
}

template <int Order>
Value bessel_y_rule(Lowering& b, Value x) {
  return bessel_y(b, x, Order);
}

}  // namespace

void register_bessel(OperatorTable& table) {
  constexpr RuleOptions kMath{.promotion = Promotion::kFloat, .opmath = true};
  table.add("i0", i0, kMath);
  table.add("special_i0e", i0e, kMath);
  table.add("special_i1", i1, kMath);
  table.add("special_i1e", i1e, kMath);
  table.add("special_modified_bessel_i0", i0, kMath);
  table.add("special_modified_bessel_i1", i1, kMath);
  table.add("special_modified_bessel_k0", bessel_k_rule<false, false>, kMath);
  table.add("special_modified_bessel_k1", bessel_k_rule<true, false>, kMath);
  table.add("special_scaled_modified_bessel_k0", bessel_k_rule<false, true>, kMath);
  table.add("special_scaled_modified_bessel_k1", bessel_k_rule<true, true>, kMath);
  table.add("special_bessel_j0", bessel_j0, kMath);
  table.add("special_bessel_j1", bessel_j1, kMath);
  table.add("special_bessel_y0", bessel_y_rule<0>, kMath);
  table.add("special_bessel_y1", bessel_y_rule<1>, kMath);
  table.add("special_spherical_bessel_j0", spherical_j0, kMath);
  table.add("special_airy_ai", airy_ai, kMath);
}

}  // namespace torch_tpu::lowering
