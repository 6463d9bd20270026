#include "lowering/data_dependent.h"
#include "lowering/diagonals.h"
#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

// The type ranges are evaluated in: ATen's CPU kernels take double for float32 too.
DType range_type(Lowering& b, DType result) {
  if (is_integral(result)) return DType::kS64;
  if (is_half(result)) return DType::kF32;
  return b.settings().is_cpu && result == DType::kF32 ? DType::kF64 : result;
}

// start + i * step, as many as the result holds. Types follow the result, given by the frame. The
// bounds decide how many that is: they are structure, never operands.
Value arange_start_step(Lowering& b, Scalar start, Scalar, Scalar step) {
  const TensorType out = b.out();
  const DType type = range_type(b, out.dtype);
  if (out.numel() == 0) return b.constant(out.dtype, 0, out.shape);
  const TensorType computed{type, {out.numel()}};
  Value first = b.broadcast(b.scalar(type, start), computed.shape);
  Value steps = b.broadcast(b.scalar(type, step), computed.shape);
  return b.convert(b.reshape(b.add(first, b.multiply(steps, b.iota(computed, 0))), out.shape),
                   out.dtype);
}

Value arange_start(Lowering& b, Scalar start, Scalar end) {
  return arange_start_step(b, start, end, Scalar::of(int64_t{1}));
}

Value arange_end(Lowering& b, Scalar end) { return arange_start(b, Scalar::of(int64_t{0}), end); }

// From both ends towards the middle, as ATen does, so that the last element is exactly `end`.
Value spaced(Lowering& b, Value start, Value end, int64_t steps) {
  const DType type = start.dtype();
  if (steps <= 1) return b.broadcast(start, {steps});
  const TensorType t{type, {steps}};
  Value step = b.bdiv(b.subtract(end, start), b.constant(type, static_cast<double>(steps - 1)));
  Value position = b.iota({DType::kS32, {steps}}, 0);
  Value up = b.convert(position, type);
  Value down =
      b.convert(b.subtract(b.full_like(position, static_cast<double>(steps - 1)), position), type);
  Value from_start = b.badd(start, b.bmul(step, up));
  Value from_end = b.bsub(end, b.bmul(step, down));
  Value first_half =
      b.compare(position, b.full_like(position, static_cast<double>(steps / 2)), Compare::kLt);
  return b.select(first_half, from_start, from_end);
}

// ATen's kernels round every step to the result's type, halves included.
DType spacing_type(DType result) { return is_integral(result) ? DType::kF64 : result; }

Value linspace_between(Lowering& b, Value start, Value end, int64_t steps) {
  const DType result = b.out().dtype;
  if (is_integral(result)) {
    start = b.convert(b.convert(start, result), DType::kF64);
    end = b.convert(b.convert(end, result), DType::kF64);
  }
  return b.convert(spaced(b, start, end, steps), result);
}

Value linspace(Lowering& b, Operand start, Operand end, int64_t steps) {
  const DType type = spacing_type(b.out().dtype);
  return linspace_between(b, b.number(start, type), b.number(end, type), steps);
}

Value linspace_tensor_tensor(Lowering& b, Value start, Value end, int64_t steps) {
  const DType type = spacing_type(b.out().dtype);
  return linspace_between(b, b.convert(start, type), b.convert(end, type), steps);
}

Value linspace_tensor_scalar(Lowering& b, Value start, Operand end, int64_t steps) {
  return linspace_tensor_tensor(b, start, b.number(end, spacing_type(b.out().dtype)), steps);
}

Value linspace_scalar_tensor(Lowering& b, Operand start, Value end, int64_t steps) {
  return linspace_tensor_tensor(b, b.number(start, spacing_type(b.out().dtype)), end, steps);
}

Value logspace_between(Lowering& b, Value start, Value end, int64_t steps, double base) {
  Value exponents = spaced(b, start, end, steps);
  return b.convert(b.power(b.full_like(exponents, base), exponents), b.out().dtype);
}

Value logspace(Lowering& b, Operand start, Operand end, int64_t steps, double base) {
  const DType type = spacing_type(b.out().dtype);
  return logspace_between(b, b.number(start, type), b.number(end, type), steps, base);
}

Value logspace_tensor_tensor(Lowering& b, Value start, Value end, int64_t steps, double base) {
  const DType type = spacing_type(b.out().dtype);
  return logspace_between(b, b.convert(start, type), b.convert(end, type), steps, base);
}

Value logspace_tensor_scalar(Lowering& b, Value start, Operand end, int64_t steps, double base) {
  return logspace_tensor_tensor(b, start, b.number(end, spacing_type(b.out().dtype)), steps, base);
}

Value logspace_scalar_tensor(Lowering& b, Operand start, Value end, int64_t steps, double base) {
  return logspace_tensor_tensor(b, b.number(start, spacing_type(b.out().dtype)), end, steps, base);
}

// --- constants

Value eye_m(Lowering& b, Ignored, Ignored) {
  const TensorType out = b.out();
  if (out.numel() == 0) return b.constant(out.dtype, 0, out.shape);
  return b.convert(diagonal_mask(b, out.shape, 0, 0, 1, Compare::kEq), out.dtype);
}

Value eye(Lowering& b, Ignored n) { return eye_m(b, n, n); }

Value full(Lowering& b, Ignored, Operand value) {
  return b.broadcast(b.number(value, b.out().dtype), b.out().shape);
}

Value zeros(Lowering& b) { return b.full(b.out(), 0); }
Value ones(Lowering& b) { return b.full(b.out(), 1); }

// --- coordinates of a triangle

// [2, n]: rows and columns of the elements at or below (above) the diagonal, in row-major order.
Value triangle(Lowering& b, int64_t rows, int64_t cols, int64_t offset, Compare which) {
  const TensorType out = b.out();
  if (out.numel() == 0) return b.constant(out.dtype, 0, out.shape);
  Value mask = diagonal_mask(b, {rows, cols}, offset, 0, 1, which);
  return b.convert(b.transpose_last_two(nonzero_positions(b, mask, out.shape[1])), out.dtype);
}

Value tril_indices(Lowering& b, int64_t rows, int64_t cols, int64_t offset) {
  return triangle(b, rows, cols, offset, Compare::kLe);
}
Value triu_indices(Lowering& b, int64_t rows, int64_t cols, int64_t offset) {
  return triangle(b, rows, cols, offset, Compare::kGe);
}

}  // namespace

void register_creation(OperatorTable& table) {
  table.add("arange", arange_end);
  table.add("arange.start", arange_start);
  table.add("arange.start_step", arange_start_step);
  table.add("range.step", arange_start_step);
  table.add("range", arange_start);
  table.add("linspace", linspace);
  table.add("linspace.Tensor_Tensor", linspace_tensor_tensor);
  table.add("linspace.Tensor_Scalar", linspace_tensor_scalar);
  table.add("linspace.Scalar_Tensor", linspace_scalar_tensor);
  table.add("logspace", logspace);
  table.add("logspace.Tensor_Tensor", logspace_tensor_tensor);
  table.add("logspace.Tensor_Scalar", logspace_tensor_scalar);
  table.add("logspace.Scalar_Tensor", logspace_scalar_tensor);
  table.add("eye", eye);
  table.add("eye.m", eye_m);
  table.add("full", full);
  table.add("full_like", full);
  for (const char* name : {"zeros", "zeros_like", "zero", "_efficientzerotensor"})
    table.add(name, zeros);
  for (const char* name : {"ones", "ones_like"}) table.add(name, ones);
  table.add("tril_indices", tril_indices);
  table.add("triu_indices", triu_indices);
}

}  // namespace torch_tpu::lowering
