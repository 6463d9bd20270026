#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// Inclusive scan along `dim` (not negative, rank at least 1): out[i] = x[0] op ... op x[i]. kAdd,
// kMul, kMax or kMin; floats propagate NaN.
Value inclusive_scan(Lowering& b, Value x, int64_t dim, Combiner combiner);

// Number of true elements among mask[0..i] of a vector, as index_type(numel).
Value count_up_to(Lowering& b, Value mask);

}  // namespace torch_tpu::lowering
