#include <cmath>

#include "lowering/operator_table.h"
#include "lowering/pointwise.h"
#include "lowering/samplers.h"
#include "lowering/special.h"

namespace torch_tpu::lowering {
namespace {

// Gradients of samples in the parameters of their distribution, at a fixed quantile: for a
// distribution function F with density p, dx/da = -(dF/da) / p (Figurnov, Mohamed and Mnih,
// "Implicit reparameterization gradients", 2018). F/p is a series or a continued fraction whose
// terms are differentiated as they are summed; in float64, because the sum changes sign where F
// does not.

constexpr double kEpsilon = 1e-14;
constexpr double kLimit = 20000;

Value any_of(Lowering& b, Value pred) { return b.any(pred, Lowering::all_dims(pred.rank())); }

// sum over k = 0, 1, ... of t_k (d + s_k), where t_0 = 1 and t_k = t_(k-1) ratio(k), and s_k is the
// sum of slope(1), ..., slope(k): the derivative of a series whose terms have the logarithmic
// derivatives d + s_k. Only where `wanted`.
template <typename Ratio, typename Slope>
Value derivative_of_series(Lowering& b, Value d, Value wanted, const Ratio& ratio,
                           const Slope& slope) {
  Value one = b.full_like(d, 1);
  const Value init[] = {b.constant(d.dtype(), 1), one, d, d, one, wanted};
  const Values end = b.while_loop(
      init,
      [&](std::span<const Value> s) -> Values {
        return {b.and_(any_of(b, s[5]), less(b, s[0], kLimit))};
      },
      [&](std::span<const Value> s) -> Values {
        Value k = b.broadcast(s[0], d.shape());
        Value term = b.multiply(s[1], ratio(k));
        Value weight = b.add(s[2], slope(k));
        Value sum = b.add(s[3], b.multiply(term, weight));
        Value terms = b.add(s[4], term);  // positive: the scale of what is summed
        Value open = b.compare(b.multiply(term, b.add_scalar(b.abs(weight), 1)),
                               b.mul_scalar(terms, kEpsilon), Compare::kGt);
        auto keep = [&](Value now, Value before) { return b.select(s[5], now, before); };
        return {b.add_scalar(s[0], 1), keep(term, s[1]),  keep(weight, s[2]),
                keep(sum, s[3]),       keep(terms, s[4]), b.and_(s[5], open)};
      });
  return end[3];
}

// --- gamma

// P(a, x) / p = x / a sum of x^k / ((a + 1) ... (a + k)) (DLMF 8.11.4).
Value gamma_by_series(Lowering& b, Value a, Value x, Value wanted) {
  Value d = b.subtract(b.log(x), digamma(b, b.add_scalar(a, 1)));
  Value sum = derivative_of_series(
      b, d, wanted, [&](Value k) { return b.divide(x, b.add(a, k)); },
      [&](Value k) { return b.negate(reciprocal(b, b.add(a, k))); });
  return b.negate(b.multiply(b.divide(x, a), sum));
}

// Q(a, x) / p = x / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)) (DLMF 8.9.2), by Lentz's method.
Value gamma_by_fraction(Lowering& b, Value a, Value x, Value wanted) {
  Value offset = b.add_scalar(b.subtract(x, a), 1);  // at least 2 where wanted
  Value d0 = reciprocal(b, offset);
  Value slope0 = square(b, d0);
  constexpr double kHuge = 1e290;
  // Counter; C and D with their derivatives in a; the fraction with its derivative.
  const Value init[] = {b.constant(x.dtype(), 1),
                        b.full_like(x, kHuge),
                        b.zeros_like(x),
                        d0,
                        slope0,
                        d0,
                        slope0,
                        wanted};
  const Values end = b.while_loop(
      init,
      [&](std::span<const Value> s) -> Values {
        return {b.and_(any_of(b, s[7]), less(b, s[0], kLimit))};
      },
      [&](std::span<const Value> s) -> Values {
        Value i = b.broadcast(s[0], x.shape());
        Value numerator = b.multiply(i, b.subtract(a, i));  // derivative i
        Value level = b.add(offset, b.add(i, i));           // derivative -1
        Value d = reciprocal(b, b.add(b.multiply(numerator, s[3]), level));
        Value inner = b.add(b.multiply(i, s[3]), b.multiply(numerator, s[4]));
        Value dd = b.negate(b.multiply(square(b, d), b.add_scalar(inner, -1)));
        Value quotient = b.divide(numerator, s[1]);
        Value c = b.add(level, quotient);
        Value dc = b.divide(b.subtract(i, b.multiply(quotient, s[2])), s[1]);
        dc = b.add_scalar(dc, -1);
        Value factor = b.multiply(c, d);
        Value dfactor = b.add(b.multiply(dc, d), b.multiply(c, dd));
        Value f = b.multiply(s[5], factor);
        Value df = b.add(b.multiply(s[6], factor), b.multiply(s[5], dfactor));
        Value moved = b.add(b.abs(b.add_scalar(factor, -1)), b.abs(b.multiply(s[5], dfactor)));
        Value open = greater(b, moved, kEpsilon);
        auto keep = [&](Value now, Value before) { return b.select(s[7], now, before); };
        return {b.add_scalar(s[0], 1), keep(c, s[1]), keep(dc, s[2]), keep(d, s[3]),
                keep(dd, s[4]),        keep(f, s[5]), keep(df, s[6]), b.and_(s[7], open)};
      });
  Value d = b.subtract(b.log(x), digamma(b, a));
  return b.multiply(x, b.add(end[6], b.multiply(end[5], d)));
}

// The cube root of a gamma variate over a is nearly normal (Wilson and Hilferty, 1931).
Value gamma_by_normal(Lowering& b, Value a, Value x) {
  Value c = b.cbrt(b.divide(x, a));
  Value ninth = b.divide(b.full_like(a, 1.0 / 9), a);
  Value deviation = b.add(b.add_scalar(c, -1), ninth);  // the quantile times 1 / (3 sqrt(a))
  // c = 1 - 1 / (9a) + z / (3 sqrt(a)) at a fixed z
  Value slope = b.subtract(ninth, b.mul_scalar(deviation, 0.5));  // a dc/da
  return b.multiply(square(b, c), b.add(c, b.mul_scalar(slope, 3)));
}

Value standard_gamma_grad(Lowering& b, Value alpha, Value sample) {
  b.broadcast_pair(alpha, sample);
  Value a = b.convert(alpha, DType::kF64);
  Value x = b.convert(sample, DType::kF64);
  Value valid =
      b.and_(b.and_(greater(b, a, 0), greater(b, x, 0)), b.and_(b.is_finite(a), b.is_finite(x)));
  a = where_constant(b, valid, a, 1);
  x = where_constant(b, valid, x, 1);
  Value large = greater(b, a, 1e5);
  Value by_series = b.compare(x, b.add_scalar(a, 1), Compare::kLt);
  Value small = b.and_(valid, b.not_(large));
  Value from_series = gamma_by_series(b, a, x, b.and_(small, by_series));
  Value from_fraction = gamma_by_fraction(b, a, x, b.and_(small, b.not_(by_series)));
  Value grad = b.select(by_series, from_series, from_fraction);
  grad = b.select(large, gamma_by_normal(b, a, x), grad);
  // A sample that underflowed to 0 stays there.
  Value defined = greater(b, b.convert(alpha, DType::kF64), 0);
  Value other =
      where_constant(b, b.and_(defined, equals(b, sample, 0)), 0, b.nan(DType::kF64, a.shape()));
  return b.convert(b.select(valid, grad, other), alpha.dtype());
}

// --- Dirichlet

// A component x of a Dirichlet sample has a beta distribution with a = alpha, b = total - alpha.
// PyTorch wants the gradient in a divided by 1 - x: how x moves when the others keep their
// proportions. I_x(a, b) / p = x (1 - x) / a sum of (a + b)_k / (a + 1)_k x^k (DLMF 8.17.8).
Value dirichlet_grad(Lowering& b, Value sample, Value alpha, Value total) {
  broadcast_all(b, {&sample, &alpha, &total});
  Value x = b.convert(sample, DType::kF64);
  Value a = b.convert(alpha, DType::kF64);
  Value n = b.convert(total, DType::kF64);
  Value c = b.subtract(n, a);
  Value valid = b.and_(b.and_(greater(b, x, 0), less_equal(b, x, 1)),
                       b.and_(greater(b, a, 0), greater(b, c, 0)));
  valid = b.and_(valid, b.is_finite(n));
  x = where_constant(b, valid, x, 0.5);
  a = where_constant(b, valid, a, 1);
  c = where_constant(b, valid, c, 1);
  n = b.add(a, c);
  // From the nearer end; the series of the first end is slow near 1.
  Value low = b.and_(b.compare(b.multiply(x, n), a, Compare::kLe), less_equal(b, x, 0.95));
  Value y = complement(b, x);
  Value common = b.add(b.log(x), digamma(b, n));
  auto raised = [&](Value k) { return b.add(n, b.add_scalar(k, -1)); };
  Value from_zero = derivative_of_series(
      b, b.subtract(common, digamma(b, b.add_scalar(a, 1))), b.and_(valid, low),
      [&](Value k) { return b.divide(b.multiply(raised(k), x), b.add(a, k)); },
      [&](Value k) { return b.subtract(reciprocal(b, raised(k)), reciprocal(b, b.add(a, k))); });
  Value from_one = derivative_of_series(
      b, b.subtract(common, digamma(b, a)), b.and_(valid, b.not_(low)),
      [&](Value k) { return b.divide(b.multiply(raised(k), y), b.add(c, k)); },
      [&](Value k) { return reciprocal(b, raised(k)); });
  Value grad = b.select(low, b.negate(b.multiply(b.divide(x, a), from_zero)),
                        b.multiply(b.divide(x, c), from_one));
  // A sample that underflowed to 0 stays there, and a single component is always 1.
  Value fixed = b.or_(equals(b, sample, 0), b.compare(alpha, total, Compare::kEq));
  Value other = where_constant(b, fixed, 0, b.nan(DType::kF64, x.shape()));
  return b.convert(b.select(valid, grad, other), sample.dtype());
}

}  // namespace

void register_sampler_gradients(OperatorTable& table) {
  const RuleOptions math{.promotion = Promotion::kFloat, .opmath = true};
  table.add("_standard_gamma_grad", standard_gamma_grad, math);
  table.add("_dirichlet_grad", dirichlet_grad, math);
}

}  // namespace torch_tpu::lowering
