#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

class OperatorTable;

// Over dimension `dim`, which may be negative; 0-d tensors count as one element.
Value softmax(Lowering& b, Value x, int64_t dim);
Value log_softmax(Lowering& b, Value x, int64_t dim);
// Rows of -inf only give zeros instead of NaN.
Value safe_softmax(Lowering& b, Value x, int64_t dim);

// log(1 + exp(-|x|)) taken from min(x, 0).
Value log_sigmoid(Lowering& b, Value x);

// Parts of the activation family in files of their own.
void register_activation_backward(OperatorTable& table);
void register_softmax(OperatorTable& table);
void register_glu(OperatorTable& table);

}  // namespace torch_tpu::lowering
