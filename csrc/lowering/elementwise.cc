#include <limits>

#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

void broadcast_all(Lowering& b, std::initializer_list<Value*> values) {
  Shape shape;
  for (const Value* v : values) shape = Lowering::broadcast_shapes(shape, v->shape());
  for (Value* v : values) *v = b.broadcast(*v, shape);
}

Value cast(Lowering& b, Value x, DType dtype) {
  if (is_complex(x.dtype()) && !is_complex(dtype) && !is_bool(dtype)) x = b.real(x);
  const bool narrow = is_int(dtype) && byte_size(dtype) < 4;
  if (is_float(x.dtype()) && (narrow || is_unsigned_int(dtype))) x = b.convert(x, DType::kS64);
  return b.convert(x, dtype);
}

Value trunc(Lowering& b, Value x) {
  if (!is_float(x.dtype())) return x;
  return b.select(less(b, x, 0), b.ceil(x), b.floor(x));
}

Value signum(Lowering& b, Value x) {
  if (is_bool(x.dtype())) return x;
  if (is_complex(x.dtype())) {
    Value size = b.abs(x);
    Value zero = equals(b, size, 0);
    Value safe = where_constant(b, zero, 1, size);
    return b.select(zero, b.zeros_like(x),
                    b.complex(b.divide(b.real(x), safe), b.divide(b.imag(x), safe)));
  }
  Value positive = b.convert(greater(b, x, 0), x.dtype());
  if (is_unsigned_int(x.dtype())) return positive;
  return b.subtract(positive, b.convert(less(b, x, 0), x.dtype()));
}

Value is_negative(Lowering& b, Value x) {
  if (is_bool(x.dtype()) || is_unsigned_int(x.dtype()))
    return b.constant_int(DType::kPred, 0, x.shape());
  if (!is_float(x.dtype())) return less(b, x, 0);
  if (is_float8(x.dtype())) x = b.convert(x, DType::kF32);
  const int64_t size = byte_size(x.dtype());
  const DType bits = size == 2 ? DType::kS16 : size == 4 ? DType::kS32 : DType::kS64;
  return less(b, b.bitcast_convert(x, bits), 0);
}

Value is_inf(Lowering& b, Value x) {
  if (is_integral(x.dtype())) return b.constant_int(DType::kPred, 0, x.shape());
  if (is_complex(x.dtype())) return b.or_(is_inf(b, b.real(x)), is_inf(b, b.imag(x)));
  return equals(b, b.abs(x), std::numeric_limits<double>::infinity());
}

Value reciprocal(Lowering& b, Value x) { return b.divide(b.full_like(x, 1), x); }

Value sigmoid(Lowering& b, Value x) {
  if (is_complex(x.dtype())) return reciprocal(b, b.add_scalar(b.exp(b.negate(x)), 1));
  return b.logistic(x);
}

Value complement(Lowering& b, Value x) { return b.subtract(b.full_like(x, 1), x); }

Value square(Lowering& b, Value x) { return is_bool(x.dtype()) ? x : b.multiply(x, x); }

namespace {

Value differ_in_sign(Lowering& b, Value x, Value y) { return b.xor_(less(b, x, 0), less(b, y, 0)); }

Value floor_divide_ints(Lowering& b, Value x, Value y) {
  Value quotient = b.divide(x, y);
  if (is_unsigned_int(x.dtype())) return quotient;
  Value inexact = b.compare(b.remainder(x, y), b.zeros_like(x), Compare::kNe);
  Value round_down = b.and_(inexact, differ_in_sign(b, x, y));
  return b.subtract(quotient, b.convert(round_down, x.dtype()));
}

}  // namespace

// As c10::div_floor_floating: the quotient of x minus its remainder, rounded, so that it agrees
// with fmod; a zero result carries the sign of x / y.
Value floor_divide(Lowering& b, Value x, Value y) {
  Value ratio = is_float(x.dtype()) ? b.bdiv(x, y) : Value();
  b.broadcast_pair(x, y);
  if (!is_float(x.dtype())) return floor_divide_ints(b, x, y);
  Value zero = b.zeros_like(x);
  Value rest = b.remainder(x, y);
  Value quotient = b.bdiv(b.subtract(x, rest), y);
  Value round_down = b.and_(b.compare(rest, zero, Compare::kNe), differ_in_sign(b, rest, y));
  quotient = b.select(round_down, b.add_scalar(quotient, -1), quotient);
  Value floored = b.floor(quotient);
  Value round_up = greater(b, b.subtract(quotient, floored), 0.5);
  floored = b.select(round_up, b.add_scalar(floored, 1), floored);
  Value signed_zero = b.select(is_negative(b, ratio), b.negate(zero), zero);
  floored = b.select(equals(b, quotient, 0), signed_zero, floored);
  return b.select(equals(b, y, 0), ratio, floored);
}

Value modulo(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  Value rest = b.remainder(x, y);
  if (is_unsigned_int(x.dtype())) return rest;
  Value other_side =
      b.and_(b.compare(rest, b.zeros_like(x), Compare::kNe), differ_in_sign(b, rest, y));
  return b.select(other_side, b.add(rest, y), rest);
}

Value power(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  if (is_bool(x.dtype())) return b.or_(x, b.not_(y));
  return b.power(x, y);
}

Value power_constant(Lowering& b, Value x, Scalar exponent) {
  if (is_bool(x.dtype())) return power(b, x, b.full_like(x, exponent.to_int() != 0));
  Value general = b.broadcast(b.scalar(x.dtype(), exponent), x.shape());
  if (exponent.is_complex() && exponent.c.imag() != 0) return b.power(x, general);
  const double e = exponent.to_double();
  if (e == 0) return b.full_like(x, 1);
  if (e == 1) return x;
  if (e == 2) return square(b, x);
  if (e == 3) return b.multiply(square(b, x), x);
  if (is_float(x.dtype()) || is_complex(x.dtype())) {
    if (e == 0.5) return b.sqrt(x);
    if (e == -0.5) return reciprocal(b, b.sqrt(x));
    if (e == -1) return reciprocal(b, x);
    if (e == -2) return reciprocal(b, square(b, x));
  }
  return b.power(x, general);
}

// The weight's distance from the nearer end multiplies the difference, so that both ends are exact.
Value lerp(Lowering& b, Value start, Value end, Value weight) {
  broadcast_all(b, {&start, &end, &weight});
  Value size = b.abs(weight);
  Value far = greater_equal(b, size, 0.5);
  Value coefficient = b.select(far, b.add_scalar(weight, -1), weight);
  Value base = b.select(far, end, start);
  return b.add(base, b.multiply(coefficient, b.subtract(end, start)));
}

Value polynomial(Lowering& b, Value x, std::span<const double> coefficients) {
  Value y = b.full_like(x, coefficients[0]);
  for (double c : coefficients.subspan(1)) y = b.add_scalar(b.multiply(y, x), c);
  return y;
}

Value where(Lowering& b, Value condition, Value x, Value y) {
  return b.bselect(b.convert(condition, DType::kPred), x, y);
}

Value where_constant(Lowering& b, Value condition, double c, Value x) {
  return b.select(condition, b.full_like(x, c), x);
}

Value where_constant(Lowering& b, Value condition, Value x, double c) {
  return b.select(condition, x, b.full_like(x, c));
}

Value less(Lowering& b, Value x, double c) { return b.compare(x, b.full_like(x, c), Compare::kLt); }
Value less_equal(Lowering& b, Value x, double c) {
  return b.compare(x, b.full_like(x, c), Compare::kLe);
}
Value greater(Lowering& b, Value x, double c) {
  return b.compare(x, b.full_like(x, c), Compare::kGt);
}
Value greater_equal(Lowering& b, Value x, double c) {
  return b.compare(x, b.full_like(x, c), Compare::kGe);
}
Value equals(Lowering& b, Value x, double c) {
  return b.compare(x, b.full_like(x, c), Compare::kEq);
}

}  // namespace torch_tpu::lowering
