#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

class OperatorTable;

// at::Reduction as ATen schemas carry it.
enum class Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// The losses of all elements, their mean (NaN when there are none) or their sum.
Value reduce_loss(Lowering& b, Value losses, int64_t reduction);
// `grad` times 1 / n where the forward took a mean over n elements.
Value unreduced_grad(Lowering& b, Value grad, int64_t reduction, int64_t n);

// Parts of the loss family in files of their own.
void register_nll_loss(OperatorTable& table);
void register_margin_loss(OperatorTable& table);
void register_ctc_loss(OperatorTable& table);

}  // namespace torch_tpu::lowering
