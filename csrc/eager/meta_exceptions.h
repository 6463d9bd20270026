#pragma once

#include <vector>

#include "eager/call.h"

namespace torch_tpu::eager {

// Where PyTorch's meta kernel gives other strides, types or sizes than its CPU kernel, the CPU's:
// changes the metadata of the call's new results.
void apply_meta_exceptions(const Call& call, std::vector<TensorSpec>& results);

// The metadata of a result for which PyTorch has no meta kernel and the rule gave `type`: dense,
// and in the operands' type where the rule computed in a wider one.
TensorSpec without_meta(const Call& call, const TensorType& type);

}  // namespace torch_tpu::eager
