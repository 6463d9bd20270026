#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// {sorted values, indices (index_type)} along `dim` (not negative, rank at least 1); stable. NaN
// counts as the greatest number, -0 equals 0.
Values stable_sort(Lowering& b, Value x, int64_t dim, bool descending);

// Order (index_type, [n]) in which the rows of x [n, m] are lexicographically ascending; stable.
Value lexicographic_order(Lowering& b, Value x);

// Unsigned integers of the same width in the order of x, NaN greatest; the inverse of that.
Value sort_key(Lowering& b, Value x);
Value from_sort_key(Lowering& b, Value key, DType dtype);

}  // namespace torch_tpu::lowering
