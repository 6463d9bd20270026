#include "lowering/pointwise.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {
namespace {

constexpr RuleOptions kMath{.promotion = Promotion::kResult, .opmath = true};
constexpr RuleOptions kFloatMath{.promotion = Promotion::kFloat, .opmath = true};
constexpr RuleOptions kExact{.promotion = Promotion::kResult};  // nothing is rounded

bool is_one(const Operand& x) {
  const auto& c = x.constant();
  return c && (c->is_complex() ? c->c == 1.0 : c->to_double() == 1.0);
}

Value scaled(Lowering& b, Value x, const Operand& factor) {
  return is_one(factor) ? x : b.bmul(x, b.number(factor, x.dtype()));
}

// --- sums and products

Value add(Lowering& b, Value x, Value y, Operand alpha) { return b.badd(x, scaled(b, y, alpha)); }

Value add_number(Lowering& b, Value x, Operand y, Operand alpha) {
  return add(b, x, b.number(y, x.dtype()), alpha);
}

Value sub(Lowering& b, Value x, Value y, Operand alpha) { return b.bsub(x, scaled(b, y, alpha)); }

Value sub_number(Lowering& b, Value x, Operand y, Operand alpha) {
  return sub(b, x, b.number(y, x.dtype()), alpha);
}

Value rsub(Lowering& b, Value x, Value y, Operand alpha) { return sub(b, y, x, alpha); }

Value rsub_number(Lowering& b, Value x, Operand y, Operand alpha) {
  return rsub(b, x, b.number(y, x.dtype()), alpha);
}

Value add_relu(Lowering& b, Value x, Value y, Operand alpha) {
  Value sum = add(b, x, y, alpha);
  return b.maximum(sum, b.zeros_like(sum));
}

Value add_relu_number(Lowering& b, Value x, Operand y, Operand alpha) {
  return add_relu(b, x, b.number(y, x.dtype()), alpha);
}

Value multiply(Lowering& b, Value x, Value y) { return b.bmul(x, y); }

Value addcmul(Lowering& b, Value x, Value y, Value z, Operand value) {
  return b.badd(x, b.bmul(scaled(b, y, value), z));
}

Value addcdiv(Lowering& b, Value x, Value y, Value z, Operand value) {
  return b.badd(x, b.bdiv(scaled(b, y, value), z));
}

// --- quotients

Value divide(Lowering& b, Value x, Value y) { return b.bdiv(x, y); }

Value divide_rounded(Lowering& b, Value x, Value y, std::optional<std::string> mode) {
  if (!mode) {
    const DType dtype = opmath(b.out().dtype);
    return b.bdiv(b.convert(x, dtype), b.convert(y, dtype));
  }
  if (*mode == "floor") return floor_divide(b, x, y);
  TT_CHECK(*mode == "trunc", kInvalidArgument,
           "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '", *mode,
           "'");
  Value quotient = b.bdiv(x, y);
  // PyTorch's kernels round a quotient of half tensors before they truncate it, but one by a number
  // (or a single element) they don't.
  if (y.numel() != 1) quotient = b.convert(b.convert(quotient, b.out().dtype), quotient.dtype());
  return trunc(b, quotient);
}

Value divide_rounded_number(Lowering& b, Value x, Operand y, std::optional<std::string> mode) {
  return divide_rounded(b, x, b.number(y, x.dtype()), std::move(mode));
}

Value fmod(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.remainder(x, y);
}

// --- maxima

Value maximum(Lowering& b, Value x, Value y) { return b.bmax(x, y); }
Value minimum(Lowering& b, Value x, Value y) { return b.bmin(x, y); }

// The operand that isn't NaN wins.
Value fmax(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, b.maximum(x, y)));
}

Value fmin(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.select(b.is_nan(x), y, b.select(b.is_nan(y), x, b.minimum(x, y)));
}

// NaN among value and bounds wins; the upper bound wins over the lower one.
Value clamp_between(Lowering& b, Value x, std::optional<Value> low, std::optional<Value> high) {
  TT_CHECK(low || high, kInvalidArgument,
           "torch.clamp: At least one of 'min' or 'max' must not be None");
  if (low) x = b.bmax(x, *low);
  if (high) x = b.bmin(x, *high);
  return x;
}

Value clamp(Lowering& b, Value x, std::optional<Operand> low, std::optional<Operand> high) {
  auto bound = [&](const std::optional<Operand>& n) {
    return n ? std::optional(b.number(*n, x.dtype())) : std::nullopt;
  };
  return clamp_between(b, x, bound(low), bound(high));
}

// --- copies and choices

Value copy(Lowering& b, Value self, Value source) {
  return b.broadcast(cast(b, source, self.dtype()), self.shape());
}

Value fill(Lowering& b, Value self, Operand value) { return b.number_like(value, self); }

Value masked_fill(Lowering& b, Value self, Value mask, Value value) {
  return where(b, mask, cast(b, value, self.dtype()), self);
}

Value masked_fill_number(Lowering& b, Value self, Value mask, Operand value) {
  return masked_fill(b, self, mask, b.number(value, self.dtype()));
}

Value where_rule(Lowering& b, Value condition, Value x, Value y) {
  const DType dtype = b.out().dtype;
  return where(b, condition, b.convert(x, dtype), b.convert(y, dtype));
}

Value nan_to_num(Lowering& b, Value x, std::optional<Operand> nan, std::optional<Operand> posinf,
                 std::optional<Operand> neginf) {
  if (is_integral(x.dtype())) return x;
  if (is_complex(x.dtype())) {
    return b.complex(nan_to_num(b, b.real(x), nan, posinf, neginf),
                     nan_to_num(b, b.imag(x), nan, posinf, neginf));
  }
  auto or_else = [&](const std::optional<Operand>& n, Value fallback) {
    return n ? b.number_like(*n, x) : fallback;
  };
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Value y = b.select(equals(b, x, kInf), or_else(posinf, b.max_value(x.dtype(), x.shape())), x);
  y = b.select(equals(b, x, -kInf), or_else(neginf, b.min_value(x.dtype(), x.shape())), y);
  return b.select(b.is_nan(x), or_else(nan, b.zeros_like(x)), y);
}

Value lerp_number(Lowering& b, Value start, Value end, Operand weight) {
  return lerp(b, start, end, b.number(weight, start.dtype()));
}

// --- two-argument functions

Value power_number(Lowering& b, Value x, Scalar exponent) {
  TT_CHECK(!is_integral(x.dtype()) || !exponent.is_integral() || exponent.to_int() >= 0,
           kInvalidArgument, "Integers to negative integer powers are not allowed.");
  return power_constant(b, x, exponent);
}

Value power_number_first(Lowering& b, Operand x, Value y) {
  return power(b, b.number(x, y.dtype()), y);
}

Value atan2(Lowering& b, Value y, Value x) {
  b.broadcast_pair(y, x);
  return b.atan2(y, x);
}

// The larger leg times sqrt(1 + ratio^2), which can't overflow early; an infinite leg wins over
// NaN.
Value hypot(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  x = b.abs(x);
  y = b.abs(y);
  Value longer = b.maximum(x, y);
  Value safe = where_constant(b, equals(b, longer, 0), 1, longer);
  Value ratio = b.divide(b.minimum(x, y), safe);
  Value length = b.multiply(longer, b.sqrt(b.add_scalar(square(b, ratio), 1)));
  Value infinite = b.or_(is_inf(b, x), is_inf(b, y));
  return where_constant(b, infinite, std::numeric_limits<double>::infinity(), length);
}

Value copysign(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  Value size = b.abs(x);
  return b.select(is_negative(b, y), b.negate(size), size);
}

Value nextafter(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.chlo("next_after", x, y);
}

Value heaviside(Lowering& b, Value x, Value at_zero) {
  b.broadcast_pair(x, at_zero);
  return b.select(equals(b, x, 0), at_zero, b.convert(greater(b, x, 0), x.dtype()));
}

// max + log(1 + exp(min - max)) / log(base); equal infinities would give NaN.
Value log_add_exp(Lowering& b, Value x, Value y, double log_of_base) {
  b.broadcast_pair(x, y);
  Value x_key = b.real(x);
  Value y_key = b.real(y);
  Value x_first = b.or_(b.compare(x_key, y_key, Compare::kGe), b.is_nan(x_key));
  Value larger = b.select(x_first, x, y);
  Value smaller = b.select(x_first, y, x);
  Value gap = b.mul_scalar(b.subtract(smaller, larger), log_of_base);
  Value sum = b.add(larger, b.mul_scalar(b.log1p(b.exp(gap)), 1 / log_of_base));
  Value same_infinity = b.and_(b.compare(x, y, Compare::kEq), is_inf(b, b.real(x)));
  return b.select(same_infinity, x, sum);
}

Value logaddexp(Lowering& b, Value x, Value y) { return log_add_exp(b, x, y, 1); }
Value logaddexp2(Lowering& b, Value x, Value y) { return log_add_exp(b, x, y, std::numbers::ln2); }

// x * 2^y
Value ldexp(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.multiply(x, b.power(b.full_like(x, 2), y));
}

// --- greatest common divisor, by Euclid's algorithm on all elements until all are done

Value gcd(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  const Value start[] = {b.abs(x), b.abs(y)};
  return b.while_loop(
      start,
      [&](std::span<const Value> s) -> Values {
        Value open = b.compare(s[1], b.zeros_like(s[1]), Compare::kNe);
        return {b.any(open, Lowering::all_dims(open.rank()))};
      },
      [&](std::span<const Value> s) -> Values {
        Value done = equals(b, s[1], 0);
        Value divisor = where_constant(b, done, 1, s[1]);
        Value next = b.select(done, s[0], s[1]);
        return {next, where_constant(b, done, 0, b.remainder(s[0], divisor))};
      })[0];
}

Value lcm(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  Value divisor = gcd(b, x, y);
  Value none = equals(b, divisor, 0);
  Value multiple = b.multiply(b.divide(x, where_constant(b, none, 1, divisor)), y);
  return where_constant(b, none, 0, b.abs(multiple));
}

// --- complex numbers from parts

Value complex(Lowering& b, Value real, Value imag) {
  b.broadcast_pair(real, imag);
  return b.complex(real, imag);
}

Value polar(Lowering& b, Value size, Value angle) {
  b.broadcast_pair(size, angle);
  return b.complex(b.multiply(size, b.cosine(angle)), b.multiply(size, b.sine(angle)));
}

}  // namespace

void register_pointwise(OperatorTable& table) {
  table.add("add.Tensor", add, kMath);
  table.add("add.Scalar", add_number, kMath);
  table.add("sub.Tensor", sub, kMath);
  table.add("sub.Scalar", sub_number, kMath);
  table.add("rsub.Tensor", rsub, kMath);
  table.add("rsub.Scalar", rsub_number, kMath);
  table.add("_add_relu.Tensor", add_relu, kMath);
  table.add("_add_relu.Scalar", add_relu_number, kMath);
  table.add("mul.Tensor", multiply, kMath);
  table.add("mul.Scalar", with_number<multiply>, kMath);
  table.add("addcmul", addcmul, kMath);
  table.add("addcdiv", addcdiv, kMath);
  table.add("lerp.Tensor", lerp, kMath);
  table.add("lerp.Scalar", lerp_number, kMath);

  table.add("div.Tensor", divide, kFloatMath);
  table.add("div.Scalar", with_number<divide>, kFloatMath);
  table.add("div.Tensor_mode", divide_rounded, kMath);
  table.add("div.Scalar_mode", divide_rounded_number, kMath);
  table.add("floor_divide", floor_divide, kMath);
  table.add("floor_divide.Scalar", with_number<floor_divide>, kMath);
  table.add("remainder.Tensor", modulo, kMath);
  table.add("remainder.Scalar", with_number<modulo>, kMath);
  table.add("remainder.Scalar_Tensor", number_first<modulo>, kMath);
  table.add("fmod.Tensor", fmod, kMath);
  table.add("fmod.Scalar", with_number<fmod>, kMath);

  table.add("maximum", maximum, kExact);
  table.add("minimum", minimum, kExact);
  table.add("fmax", fmax, kExact);
  table.add("fmin", fmin, kExact);
  table.add("clamp", clamp, kExact);
  table.add("clamp.Tensor", clamp_between, kExact);
  table.add("clamp_min", with_number<maximum>, kExact);
  table.add("clamp_min.Tensor", maximum, kExact);
  table.add("clamp_max", with_number<minimum>, kExact);
  table.add("clamp_max.Tensor", minimum, kExact);

  table.add("copy", copy);
  table.add("clone", [](Lowering&, Value x) { return x; });
  table.add("fill.Scalar", fill);
  table.add("fill.Tensor", copy);
  table.add("masked_fill.Tensor", masked_fill);
  table.add("masked_fill.Scalar", masked_fill_number);
  table.add("where.self", where_rule);
  table.add("nan_to_num", nan_to_num);

  table.add("pow.Tensor_Tensor", power, kMath);
  table.add("pow.Tensor_Scalar", power_number, kMath);
  table.add("pow.Scalar", power_number_first, kMath);
  table.add("atan2", atan2, kFloatMath);
  table.add("hypot", hypot, kMath);
  table.add("copysign.Tensor", copysign, kFloatMath);
  table.add("copysign.Scalar", with_number<copysign>, kFloatMath);
  table.add("nextafter", nextafter, kExact);
  table.add("heaviside", heaviside, kExact);
  table.add("logaddexp", logaddexp, kMath);
  table.add("logaddexp2", logaddexp2, kMath);
  table.add("ldexp.Tensor", ldexp, kFloatMath);
  table.add("gcd", gcd, kExact);
  table.add("lcm", lcm, kExact);
  table.add("complex", complex, kExact);
  table.add("polar", polar, kExact);

  register_unary_math(table);
  register_bitwise(table);
}

}  // namespace torch_tpu::lowering
