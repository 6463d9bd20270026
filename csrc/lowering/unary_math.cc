#include <cmath>
#include <numbers>

#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

constexpr RuleOptions kMath{.opmath = true};  // integers stay integers
constexpr RuleOptions kFloatMath{.promotion = Promotion::kFloat, .opmath = true};

// One StableHLO or CHLO operation for one ATen operator.
template <Value (stablehlo::ProgramBuilder::*Op)(Value)>
Value direct(Lowering& b, Value x) {
  return (b.*Op)(x);
}

// The same, where integers are whole already.
template <Value (stablehlo::ProgramBuilder::*Op)(Value)>
Value rounding(Lowering& b, Value x) {
  return is_integral(x.dtype()) ? x : (b.*Op)(x);
}

Value angle(Lowering& b, Value x) {
  if (is_complex(x.dtype())) return b.atan2(b.imag(x), b.real(x));
  Value pi_or_zero = b.select(less(b, x, 0), b.full_like(x, std::numbers::pi), b.zeros_like(x));
  return b.select(b.is_nan(x), x, pi_or_zero);
}

Value conj(Lowering& b, Value x) {
  return is_complex(x.dtype()) ? b.complex(b.real(x), b.negate(b.imag(x))) : x;
}

Value exp2(Lowering& b, Value x) {
  if (is_complex(x.dtype())) return b.exp(b.mul_scalar(x, std::numbers::ln2));
  return b.power(b.full_like(x, 2), x);
}

Value log2(Lowering& b, Value x) { return b.mul_scalar(b.log(x), std::numbers::log2e); }
Value log10(Lowering& b, Value x) { return b.mul_scalar(b.log(x), std::numbers::log10e); }

Value frac(Lowering& b, Value x) { return b.subtract(x, trunc(b, x)); }

// Negative decimals round to tens, hundreds, ...
Value round_decimals(Lowering& b, Value x, int64_t decimals) {
  if (is_integral(x.dtype())) return x;
  Value scale = b.scalar(x.dtype(), std::pow(10.0, static_cast<double>(std::abs(decimals))));
  if (decimals < 0) return b.bmul(b.round_even(b.bdiv(x, scale)), scale);
  return b.bdiv(b.round_even(b.bmul(x, scale)), scale);
}

// The parts of x = mantissa * 2^exponent, 0.5 <= |mantissa| < 1, by its bits.
std::pair<Value, Value> frexp(Lowering& b, Value x) {
  const bool wide = x.dtype() == DType::kF64;
  const DType bits_type = wide ? DType::kS64 : DType::kS32;
  const int64_t width = wide ? 52 : 23;
  const int64_t mask = wide ? 0x7ff : 0xff;
  const int64_t half = wide ? 1022 : 126;  // the biased exponent of 0.5
  auto same = [&](int64_t v) { return b.constant_int(bits_type, v, x.shape()); };
  Value bits = b.bitcast_convert(x, bits_type);
  Value biased = b.and_(b.shift_right_logical(bits, same(width)), same(mask));
  Value rest = b.and_(bits, same(~(mask << width)));
  Value mantissa = b.bitcast_convert(b.or_(rest, same(half << width)), x.dtype());
  Value exponent = b.convert(b.subtract(biased, same(half)), DType::kS32);
  Value special = b.or_(equals(b, x, 0), b.not_(b.is_finite(x)));
  return {b.select(special, x, mantissa), where_constant(b, special, 0, exponent)};
}

Value sinc(Lowering& b, Value x) {
  Value y = b.mul_scalar(x, std::numbers::pi);
  Value zero = equals(b, x, 0);
  return where_constant(b, zero, 1, b.divide(b.sine(y), where_constant(b, zero, 1, y)));
}

Value logit(Lowering& b, Value x, std::optional<Operand> eps) {
  if (eps) {
    Value low = b.number_like(*eps, x);
    Value high = b.subtract(b.full_like(x, 1), low);
    // Comparisons with NaN are false: NaN stays, and so does x where eps is negative.
    Value used = greater_equal(b, low, 0);
    Value below = b.and_(used, b.compare(x, low, Compare::kLt));
    Value above = b.and_(used, b.compare(x, high, Compare::kGt));
    x = b.select(below, low, b.select(above, high, x));
  }
  return b.log(b.divide(x, b.subtract(b.full_like(x, 1), x)));
}

// grad / (x (1 - x)) inside [eps, 1 - eps], 0 outside; without eps NaN outside [0, 1].
Value logit_backward(Lowering& b, Value grad, Value x, std::optional<Operand> eps) {
  b.broadcast_pair(grad, x);
  Value one = b.full_like(x, 1);
  Value low = eps ? b.number_like(*eps, x) : b.full_like(x, -1);
  Value clamped = greater_equal(b, low, 0);
  Value from = b.select(clamped, low, b.zeros_like(x));
  Value inside =
      b.and_(b.compare(x, from, Compare::kGe), b.compare(x, b.subtract(one, from), Compare::kLe));
  Value slope = b.divide(grad, b.multiply(x, b.subtract(one, x)));
  Value outside = b.select(clamped, b.zeros_like(x), b.nan(x.dtype(), x.shape()));
  return b.select(inside, slope, outside);
}

}  // namespace

void register_unary_math(OperatorTable& table) {
  using B = stablehlo::ProgramBuilder;
  table.add("abs", [](Lowering& b, Value x) { return b.abs(x); }, kMath);
  table.add("neg", [](Lowering& b, Value x) { return b.negate(x); }, kMath);
  table.add("sign", signum, kMath);
  table.add("sgn", signum, kMath);
  table.add("signbit", is_negative);
  table.add("angle", angle, kFloatMath);
  table.add("_conj_physical", conj);
  // conj_physical itself is a composite with these two as separate kernels.
  table.add("conj_physical_", conj);
  table.add("conj_physical.out", conj);

  table.add("ceil", rounding<&B::ceil>, kMath);
  table.add("floor", rounding<&B::floor>, kMath);
  table.add("round", rounding<&B::round_even>, kMath);
  table.add("round.decimals", round_decimals, kMath);
  table.add("trunc", trunc, kMath);
  table.add("frac", frac, kMath);
  table.add("frexp.Tensor", frexp, kMath);

  table.add("exp", direct<&B::exp>, kFloatMath);
  table.add("expm1", direct<&B::expm1>, kFloatMath);
  table.add("exp2", exp2, kFloatMath);
  table.add("log", direct<&B::log>, kFloatMath);
  table.add("log1p", direct<&B::log1p>, kFloatMath);
  table.add("log2", log2, kFloatMath);
  table.add("log10", log10, kFloatMath);
  table.add("sqrt", direct<&B::sqrt>, kFloatMath);
  table.add("rsqrt", direct<&B::rsqrt>, kFloatMath);
  table.add("reciprocal", reciprocal, kFloatMath);
  table.add("sigmoid", sigmoid, kFloatMath);
  table.add("logit", logit, kFloatMath);
  table.add("logit_backward", logit_backward, kFloatMath);

  table.add("sin", direct<&B::sine>, kFloatMath);
  table.add("cos", direct<&B::cosine>, kFloatMath);
  table.add("tan", direct<&B::tan>, kFloatMath);
  table.add("tanh", direct<&B::tanh>, kFloatMath);
  table.add("asin", [](Lowering& b, Value x) { return b.chlo("asin", x); }, kFloatMath);
  table.add("acos", [](Lowering& b, Value x) { return b.chlo("acos", x); }, kFloatMath);
  table.add("atan", [](Lowering& b, Value x) { return b.chlo("atan", x); }, kFloatMath);
  table.add("sinh", [](Lowering& b, Value x) { return b.chlo("sinh", x); }, kFloatMath);
  table.add("cosh", [](Lowering& b, Value x) { return b.chlo("cosh", x); }, kFloatMath);
  table.add("asinh", [](Lowering& b, Value x) { return b.chlo("asinh", x); }, kFloatMath);
  table.add("acosh", [](Lowering& b, Value x) { return b.chlo("acosh", x); }, kFloatMath);
  table.add("atanh", [](Lowering& b, Value x) { return b.chlo("atanh", x); }, kFloatMath);
  table.add("sinc", sinc, kFloatMath);
  table.add(
      "deg2rad", [](Lowering& b, Value x) { return b.mul_scalar(x, std::numbers::pi / 180); },
      kFloatMath);
  table.add(
      "rad2deg", [](Lowering& b, Value x) { return b.mul_scalar(x, 180 / std::numbers::pi); },
      kFloatMath);
}

}  // namespace torch_tpu::lowering
