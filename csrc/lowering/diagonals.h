#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// x[..., i, i + offset] with dim1, dim2 removed and the diagonal last.
Value diagonal(Lowering& b, Value x, int64_t offset, int64_t dim1, int64_t dim2);
// The opposite: zeros of `shape` with `source` on the diagonal.
Value on_diagonal(Lowering& b, Value source, const Shape& shape, int64_t offset, int64_t dim1,
                  int64_t dim2);
// pred of `shape`: on the diagonal (kEq), above (kGt), at or below (kLe)...: column - row compared
// with offset.
Value diagonal_mask(Lowering& b, const Shape& shape, int64_t offset, int64_t row_dim,
                    int64_t col_dim, Compare which);

}  // namespace torch_tpu::lowering
