#pragma once

#include <initializer_list>
#include <span>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

class OperatorTable;

// Elementwise formulas that several families build on. Operands have one element type; those that
// take more than one broadcast them.

// Gives all values the shape they broadcast to.
void broadcast_all(Lowering& b, std::initializer_list<Value*> values);

// PyTorch's conversion: to bool by x != 0; floats to narrow integers wrap as a C cast does on
// common hardware, where StableHLO's convert saturates.
Value cast(Lowering& b, Value x, DType dtype);

Value trunc(Lowering& b, Value x);        // integers unchanged
Value signum(Lowering& b, Value x);       // 0 for NaN; complex x / |x|
Value is_negative(Lowering& b, Value x);  // the sign bit: true for -0.0
Value is_inf(Lowering& b, Value x);
Value reciprocal(Lowering& b, Value x);
Value complement(Lowering& b, Value x);  // 1 - x
Value sigmoid(Lowering& b, Value x);
// Python's //, exact as PyTorch's c10::div_floor_floating and div_floor_integer.
Value floor_divide(Lowering& b, Value x, Value y);
// Python's %: the sign of the divisor.
Value modulo(Lowering& b, Value x, Value y);
Value power(Lowering& b, Value x, Value y);
// x to a constant power; small exponents are products and roots as in PyTorch's kernel.
Value power_constant(Lowering& b, Value x, Scalar exponent);
Value square(Lowering& b, Value x);
Value lerp(Lowering& b, Value start, Value end, Value weight);
// A polynomial by Horner's rule; the highest coefficient comes first.
Value polynomial(Lowering& b, Value x, std::span<const double> coefficients);
Value where(Lowering& b, Value condition, Value x, Value y);
// where(condition, c, x) and where(condition, x, c) for a constant c.
Value where_constant(Lowering& b, Value condition, double c, Value x);
Value where_constant(Lowering& b, Value condition, Value x, double c);
Value less(Lowering& b, Value x, double c);
Value less_equal(Lowering& b, Value x, double c);
Value greater(Lowering& b, Value x, double c);
Value greater_equal(Lowering& b, Value x, double c);
Value equals(Lowering& b, Value x, double c);

// A rule for (Tensor, Scalar) or (Scalar, Tensor) from the rule for two tensors.
template <Value (*Rule)(Lowering&, Value, Value)>
Value with_number(Lowering& b, Value x, Operand y) {
  return Rule(b, x, b.number(y, x.dtype()));
}
template <Value (*Rule)(Lowering&, Value, Value)>
Value number_first(Lowering& b, Operand x, Value y) {
  return Rule(b, b.number(x, y.dtype()), y);
}

// Parts of the pointwise family in files of their own.
void register_unary_math(OperatorTable& table);
void register_bitwise(OperatorTable& table);

}  // namespace torch_tpu::lowering
