#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

class OperatorTable;

void register_batch_norm(OperatorTable& table);
void register_layer_norm(OperatorTable& table);
void register_weight_norm(OperatorTable& table);

// Mean and biased variance in two passes: the sum of squares is of deviations from the mean.
struct Moments {
  Value mean, variance;
};
Moments moments(Lowering& b, Value x, const IntList& dims, bool keepdim);

// 1 / sqrt(x + eps)
Value inverse_std(Lowering& b, Value variance, double eps);

}  // namespace torch_tpu::lowering
