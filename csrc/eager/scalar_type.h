#pragma once

#include <c10/core/ScalarType.h>

#include "stablehlo/dtype.h"

namespace torch_tpu::eager {

// The StableHLO element type of a PyTorch dtype. Throws c10::NotImplementedError for the kinds XLA
// lacks (complex32, quantised, sub-byte).
DType dtype_of(c10::ScalarType type);
bool has_dtype(c10::ScalarType type);
c10::ScalarType scalar_type_of(DType dtype);

}  // namespace torch_tpu::eager
