#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <vector>

#include "eager/op_plan.h"

namespace torch_tpu::eager {

// The returns of the operator for these arguments by PyTorch's meta kernels: shapes, dtypes,
// strides, argument checks. Nothing where PyTorch has no meta kernel for the operator.
std::optional<std::vector<c10::IValue>> meta_call(const OpPlan& plan, const c10::IValue* args);

}  // namespace torch_tpu::eager
