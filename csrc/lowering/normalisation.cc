#include "lowering/normalisation.h"

#include "lowering/families.h"

namespace torch_tpu::lowering {

Moments moments(Lowering& b, Value x, const IntList& dims, bool keepdim) {
  Value mean = b.mean(x, dims, true);
  Value deviation = b.bsub(x, mean);
  Value variance = b.mean(b.multiply(deviation, deviation), dims, true);
  if (keepdim) return {mean, variance};
  const Shape shape = Lowering::reduced_shape(x.shape(), dims, false);
  return {b.reshape(mean, shape), b.reshape(variance, shape)};
}

Value inverse_std(Lowering& b, Value variance, double eps) {
  Value root = b.sqrt(b.add_scalar(variance, eps));
  return b.divide(b.full_like(root, 1), root);
}

void register_normalisation(OperatorTable& table) {
  register_batch_norm(table);
  register_layer_norm(table);
  register_weight_norm(table);
}

}  // namespace torch_tpu::lowering
