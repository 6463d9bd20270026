#pragma once

#include <span>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// int32 where it can hold every index of `n` elements, else int64.
DType index_type(int64_t n);

// 0, 1, ... n-1 as a vector of index_type(n).
Value positions(Lowering& b, int64_t n);

// Indices into `n` elements as index_type(n), kept inside [0, n): what is read is always the
// tensor's own. `wrap` counts negative indices from the end.
Value readable_index(Lowering& b, Value index, int64_t n, bool wrap = false);
// The same for writes: an index outside becomes `n`, which a scatter drops.
Value writable_index(Lowering& b, Value index, int64_t n, bool wrap = false);

// Elements of the vector `flat` at `index` (readable), in the shape of `index`.
Value take_flat(Lowering& b, Value flat, Value index);
// x[..., index, ...] with `index` (any shape, readable) in the place of dimension `dim`.
Value take_slices(Lowering& b, Value x, int64_t dim, Value index);
// torch.gather: out[i][j] = x[index[i][j]][j] for dim 0; `index` may be smaller than x elsewhere.
Value take_elements(Lowering& b, Value x, int64_t dim, Value index);

// The vector `flat` with `updates` (any shape) combined in at `index` (same shape, writable).
Value scatter_flat(Lowering& b, Value flat, Value index, Value updates, Combiner combiner,
                   bool unique = false);
// x with slices `updates` (the vector `index` in the place of `dim`) combined in.
Value scatter_slices(Lowering& b, Value x, int64_t dim, Value index, Value updates,
                     Combiner combiner);
// torch.scatter with a combiner: x[index[i][j]][j] op= updates[i][j] for dim 0; updates may be
// larger than index. Where indices repeat, kOverwrite lets the last one win on the CPU.
Value scatter_elements(Lowering& b, Value x, int64_t dim, Value index, Value updates,
                       Combiner combiner);

// The leading corner of x of this shape.
Value corner(Lowering& b, Value x, const Shape& shape);
// 0-d tensors count as vectors of one element.
Value at_least_1d(Lowering& b, Value x);

// The type in which updates of repeated indices accumulate: ATen's CPU kernels round every sum to
// the tensor's own type, other devices keep them wide.
DType accumulation_type(const Lowering& b, DType dtype);

// Combiners that are right for bool: maximum is or, product is and.
Combiner for_type(Combiner combiner, DType dtype);

}  // namespace torch_tpu::lowering
