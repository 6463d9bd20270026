#include <limits>

#include "lowering/activation.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

// exp(x - max) along the row, max being 0 where the whole row is -inf and `safe` is asked for.
Value exp_shifted(Lowering& b, Value x, const IntList& dims, bool safe) {
  Value max = b.reduce_max(x, dims, true);
  if (safe)
    max = where_constant(b, equals(b, max, -std::numeric_limits<double>::infinity()), 0, max);
  return b.exp(b.bsub(x, max));
}

IntList one_dim(Value x, int64_t dim) {
  const int64_t dims[] = {dim};
  return Lowering::wrap_dims(dims, x.rank());
}

Value softmax_rule(Lowering& b, Value x, int64_t dim, Ignored) { return softmax(b, x, dim); }
Value log_softmax_rule(Lowering& b, Value x, int64_t dim, Ignored) {
  return log_softmax(b, x, dim);
}

Value softmax_backward(Lowering& b, Value grad, Value output, int64_t dim) {
  Value product = b.multiply(grad, output);
  return b.bsub(product, b.bmul(output, b.sum(product, one_dim(output, dim), true)));
}

Value log_softmax_backward(Lowering& b, Value grad, Value output, int64_t dim) {
  return b.bsub(grad, b.bmul(b.exp(output), b.sum(grad, one_dim(output, dim), true)));
}

Value safe_softmax_rule(Lowering& b, Value x, int64_t dim, std::optional<DType> dtype) {
  if (dtype) x = b.convert(x, opmath(*dtype));
  return safe_softmax(b, x, dim);
}

// True positions of the mask are left out. mask_type 0: an [L, L] mask of keys for each query;
// 1: a [B, L] mask of keys, for input [B, H, T, L]; otherwise the input's shape.
Value masked_softmax(Lowering& b, Value x, Value mask, std::optional<int64_t> dim,
                     std::optional<int64_t> mask_type) {
  if (mask_type.value_or(2) == 1 && mask.rank() == 2 && x.rank() == 4) {
    mask = b.reshape(mask, {mask.dim(0), 1, 1, mask.dim(1)});
  }
  mask = b.broadcast(b.convert(mask, DType::kPred), x.shape());
  const IntList dims = one_dim(x, dim.value_or(-1));
  Value e = exp_shifted(b, b.select(mask, b.neg_inf(x.dtype(), x.shape()), x), dims, true);
  return b.bdiv(e, b.sum(e, dims, true));
}

Value masked_softmax_backward(Lowering& b, Value grad, Value output, Value mask,
                              std::optional<int64_t> dim) {
  mask = b.broadcast(b.convert(mask, DType::kPred), output.shape());
  Value kept = where_constant(b, mask, 0, grad);
  return where_constant(b, mask, 0, softmax_backward(b, kept, output, dim.value_or(-1)));
}

}  // namespace

Value softmax(Lowering& b, Value x, int64_t dim) {
  const IntList dims = one_dim(x, dim);
  Value e = exp_shifted(b, x, dims, false);
  Value sum = b.sum(e, dims, true);
  return b.divide(e, b.broadcast(sum, e.shape()));
}

Value log_softmax(Lowering& b, Value x, int64_t dim) {
  const IntList dims = one_dim(x, dim);
  Value shifted = b.bsub(x, b.reduce_max(x, dims, true));
  return b.bsub(shifted, b.log(b.sum(b.exp(shifted), dims, true)));
}

Value safe_softmax(Lowering& b, Value x, int64_t dim) {
  const IntList dims = one_dim(x, dim);
  Value e = exp_shifted(b, x, dims, true);
  Value sum = b.sum(e, dims, true);
  sum = where_constant(b, equals(b, sum, 0), 1, sum);
  return b.divide(e, b.broadcast(sum, e.shape()));
}

void register_softmax(OperatorTable& table) {
  constexpr RuleOptions kMath{.opmath = true};
  table.add("_softmax", softmax_rule, kMath);
  table.add("_log_softmax", log_softmax_rule, kMath);
  table.add("_softmax_backward_data", softmax_backward, kMath);
  table.add("_log_softmax_backward_data", log_softmax_backward, kMath);
  table.add("_safe_softmax", safe_softmax_rule, kMath);
  table.add("_masked_softmax", masked_softmax);  // no meta kernel: results keep the operands' type
  table.add("_masked_softmax_backward", masked_softmax_backward);
}

}  // namespace torch_tpu::lowering
