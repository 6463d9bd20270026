#include <cmath>
#include <limits>

#include "lowering/operator_table.h"
#include "lowering/pointwise.h"
#include "lowering/special.h"

namespace torch_tpu::lowering {
namespace {

// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P (DLMF 8.11, 8.9), in
// float64: the common factor x^a exp(-x) / Gamma(a) cancels too much in float32.

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kEpsilon = 1.1102230246251565e-16;
constexpr double kLimit = 4000;

Value any_of(Lowering& b, Value pred) { return b.any(pred, Lowering::all_dims(pred.rank())); }

// sum of x^k / ((a + 1) ... (a + k)) for k = 0, 1, ..., divided by a; only where `wanted`.
Value series(Lowering& b, Value a, Value x, Value wanted) {
  Value one = b.full_like(x, 1);
  const Value init[] = {b.constant(x.dtype(), 1), one, one, wanted};
  const Values end = b.while_loop(
      init,
      [&](std::span<const Value> s) -> Values {
        return {b.and_(any_of(b, s[3]), less(b, s[0], kLimit))};
      },
      [&](std::span<const Value> s) -> Values {
        Value denominator = b.add(a, b.broadcast(s[0], a.shape()));
        Value term = b.select(s[3], b.multiply(s[1], b.divide(x, denominator)), s[1]);
        Value sum = b.select(s[3], b.add(s[2], term), s[2]);
        Value open = b.compare(term, b.mul_scalar(sum, kEpsilon), Compare::kGt);
        return {b.add_scalar(s[0], 1), term, sum, b.and_(s[3], open)};
      });
  return b.divide(end[2], a);
}

// 1 / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...)) by the modified Lentz method; only where
// `wanted`.
Value continued_fraction(Lowering& b, Value a, Value x, Value wanted) {
  constexpr double kTiny = 1e-290;
  Value offset = b.add_scalar(b.subtract(x, a), 1);
  Value start = where_constant(b, equals(b, offset, 0), kTiny, offset);
  Value d0 = reciprocal(b, start);
  const Value init[] = {b.constant(x.dtype(), 1), b.full_like(x, 1 / kTiny), d0, d0, wanted};
  const Values end = b.while_loop(
      init,
      [&](std::span<const Value> s) -> Values {
        return {b.and_(any_of(b, s[4]), less(b, s[0], kLimit))};
      },
      [&](std::span<const Value> s) -> Values {
        Value i = b.broadcast(s[0], x.shape());
        Value numerator = b.multiply(b.negate(i), b.subtract(i, a));
        Value level = b.add(offset, b.add(i, i));
        auto away_from_zero = [&](Value v) {
          return where_constant(b, less(b, b.abs(v), kTiny), kTiny, v);
        };
        Value d = reciprocal(b, away_from_zero(b.add(b.multiply(numerator, s[2]), level)));
        Value c = away_from_zero(b.add(level, b.divide(numerator, s[1])));
        Value factor = b.multiply(c, d);
        Value open = greater(b, b.abs(b.add_scalar(factor, -1)), kEpsilon);
        return {b.add_scalar(s[0], 1), b.select(s[4], c, s[1]), b.select(s[4], d, s[2]),
                b.select(s[4], b.multiply(s[3], factor), s[3]), b.and_(s[4], open)};
      });
  return end[3];
}

struct Parts {
  Value lower, upper;
};

Parts incomplete_gamma(Lowering& b, Value a, Value x) {
  b.broadcast_pair(a, x);
  const DType dtype = x.dtype();
  a = b.convert(a, DType::kF64);
  x = b.convert(x, DType::kF64);
  Value valid =
      b.and_(b.and_(greater(b, a, 0), greater(b, x, 0)), b.and_(b.is_finite(a), b.is_finite(x)));
  Value safe_a = where_constant(b, valid, a, 1);
  Value safe_x = where_constant(b, valid, x, 1);
  Value by_series = b.compare(safe_x, b.add_scalar(safe_a, 1), Compare::kLt);
  Value log_factor =
      b.subtract(b.subtract(b.multiply(safe_a, b.log(safe_x)), safe_x), lgamma(b, safe_a));
  Value factor = b.exp(log_factor);
  Value p = b.multiply(factor, series(b, safe_a, safe_x, b.and_(valid, by_series)));
  Value q =
      b.multiply(factor, continued_fraction(b, safe_a, safe_x, b.and_(valid, b.not_(by_series))));
  Value lower = b.select(by_series, p, complement(b, q));
  Value upper = b.select(by_series, complement(b, p), q);
  // Limits: P(a, 0) = 0, P(0, x) = 1, P(inf, x) = 0, P(a, inf) = 1; undefined where they collide.
  auto limit = [&](Value condition, double at) {
    lower = where_constant(b, condition, at, lower);
    upper = where_constant(b, condition, 1 - at, upper);
  };
  Value a_zero = equals(b, a, 0);
  Value x_zero = equals(b, x, 0);
  Value a_inf = equals(b, a, kInf);
  Value x_inf = equals(b, x, kInf);
  limit(x_zero, 0);
  limit(a_zero, 1);
  limit(a_inf, 0);
  limit(x_inf, 1);
  Value undefined = b.or_(b.or_(less(b, a, 0), less(b, x, 0)), b.or_(b.is_nan(a), b.is_nan(x)));
  undefined = b.or_(undefined, b.or_(b.and_(a_zero, x_zero), b.and_(a_inf, x_inf)));
  lower = where_constant(b, undefined, kNaN, lower);
  upper = where_constant(b, undefined, kNaN, upper);
  return {b.convert(lower, dtype), b.convert(upper, dtype)};
}

Value igamma(Lowering& b, Value a, Value x) { return incomplete_gamma(b, a, x).lower; }
Value igammac(Lowering& b, Value a, Value x) { return incomplete_gamma(b, a, x).upper; }

}  // namespace

void register_incomplete_gamma(OperatorTable& table) {
  constexpr RuleOptions kMath{.promotion = Promotion::kFloat, .opmath = true};
  table.add("igamma", igamma, kMath);
  table.add("igammac", igammac, kMath);
}

}  // namespace torch_tpu::lowering
