#pragma once

#include <span>

#include "stablehlo/dtype.h"

namespace torch_tpu::lowering {

// PyTorch's type promotion (torch.promote_types, torch.result_type), without torch.
DType promote_types(DType a, DType b);

// How an operand takes part in promotion: tensors with dimensions outrank 0-d tensors, which
// outrank Python numbers ("wrapped"), within and below a category.
struct PromotionOperand {
  DType dtype;
  enum class Rank : uint8_t { kWrapped, kZeroDim, kDimensioned } rank = Rank::kDimensioned;
};

// `default_float` stands for a Python float among integers (torch.get_default_dtype()).
DType result_type(std::span<const PromotionOperand> operands, DType default_float = DType::kF32);

}  // namespace torch_tpu::lowering
