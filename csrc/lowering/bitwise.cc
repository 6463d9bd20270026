#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

Value bitwise_and(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.and_(x, y);
}

Value bitwise_or(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.or_(x, y);
}

Value bitwise_xor(Lowering& b, Value x, Value y) {
  b.broadcast_pair(x, y);
  return b.xor_(x, y);
}

// Negative amounts and amounts of the width and more shift everything out, as in PyTorch.
Value out_of_range(Lowering& b, Value amount) {
  const DType bits = unsigned_of(amount.dtype());
  const double width = static_cast<double>(8 * byte_size(bits));
  return greater_equal(b, b.bitcast_convert(amount, bits), width);
}

Value left_shift(Lowering& b, Value x, Value amount) {
  b.broadcast_pair(x, amount);
  return where_constant(b, out_of_range(b, amount), 0, b.shift_left(x, amount));
}

Value right_shift(Lowering& b, Value x, Value amount) {
  b.broadcast_pair(x, amount);
  if (is_unsigned_int(x.dtype())) {
    return where_constant(b, out_of_range(b, amount), 0, b.shift_right_logical(x, amount));
  }
  const double last = static_cast<double>(8 * byte_size(x.dtype()) - 1);
  return b.shift_right_arithmetic(x, where_constant(b, out_of_range(b, amount), last, amount));
}

}  // namespace

void register_bitwise(OperatorTable& table) {
  constexpr RuleOptions kInts{.promotion = Promotion::kResult};
  table.add("bitwise_and.Tensor", bitwise_and, kInts);
  table.add("bitwise_and.Scalar", with_number<bitwise_and>, kInts);
  table.add("bitwise_and.Scalar_Tensor", number_first<bitwise_and>, kInts);
  table.add("bitwise_or.Tensor", bitwise_or, kInts);
  table.add("bitwise_or.Scalar", with_number<bitwise_or>, kInts);
  table.add("bitwise_or.Scalar_Tensor", number_first<bitwise_or>, kInts);
  table.add("bitwise_xor.Tensor", bitwise_xor, kInts);
  table.add("bitwise_xor.Scalar", with_number<bitwise_xor>, kInts);
  table.add("bitwise_xor.Scalar_Tensor", number_first<bitwise_xor>, kInts);
  table.add("bitwise_not", [](Lowering& b, Value x) { return b.not_(x); });
  table.add("bitwise_left_shift.Tensor", left_shift, kInts);
  table.add("bitwise_left_shift.Tensor_Scalar", with_number<left_shift>, kInts);
  table.add("bitwise_left_shift.Scalar_Tensor", number_first<left_shift>, kInts);
  table.add("bitwise_right_shift.Tensor", right_shift, kInts);
  table.add("bitwise_right_shift.Tensor_Scalar", with_number<right_shift>, kInts);
  table.add("bitwise_right_shift.Scalar_Tensor", number_first<right_shift>, kInts);
  table.add("__lshift__.Tensor", left_shift, kInts);
  table.add("__lshift__.Scalar", with_number<left_shift>, kInts);
  table.add("__rshift__.Tensor", right_shift, kInts);
  table.add("__rshift__.Scalar", with_number<right_shift>, kInts);
}

}  // namespace torch_tpu::lowering
