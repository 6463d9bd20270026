#pragma once

#include <vector>

#include "eager/call.h"

namespace torch_tpu::eager {

// Where PyTorch's meta kernel gives other strides than its CPU kernel, the CPU's: changes the
// metadata of the call's new results.
void apply_stride_exceptions(const Call& call, std::vector<TensorSpec>& results);

}  // namespace torch_tpu::eager
