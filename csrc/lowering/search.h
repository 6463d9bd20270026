#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// For every element of `values` [..., m] its insertion point in the ascending `sequence` [..., n]
// (int32): before equal elements, or after them with `right`. `sequence` may be a vector while
// values has any shape; otherwise leading dimensions agree. One element type.
Value insertion_points(Lowering& b, Value sequence, Value values, bool right);

}  // namespace torch_tpu::lowering
