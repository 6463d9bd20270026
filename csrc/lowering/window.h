#pragma once

#include <vector>

#include "lowering/index_math.h"
#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// A linear map along one dimension whose rows have contiguous non-zeros: row o of the result is
// sum_t weights[o][t] * x[start[o] + t]. Averages over windows, interpolation and their adjoints.
struct Band {
  int64_t size = 0;  // of the dimension it applies to
  IntList start;
  std::vector<std::vector<double>> weights;

  int64_t rows() const { return static_cast<int64_t>(start.size()); }
  int64_t widest() const;
};

// The transposed map; the columns of `band` must be contiguous as well (monotone windows).
Band transposed(const Band& band);

// Applies the map along `dim`, summing in x's type, which must be a floating point type.
Value apply_band(Lowering& b, Value x, int64_t dim, const Band& band);

// x at positions `index` along `dim`; constant positions, by slice or broadcast where they allow
// it.
Value take(Lowering& b, Value x, int64_t dim, const IntList& index);

// x at a table of positions, [rows][width] row-major, along `dim`: dimension `dim` becomes the two
// dimensions rows, width.
Value take_windows(Lowering& b, Value x, int64_t dim, const IntList& index, int64_t rows);

// Sum of `updates` at flat positions `indices` (same shape, any integer type) of each plane: the
// last `spatial` dimensions of `shape`. The leading dimensions of all three agree.
Value add_at(Lowering& b, Value updates, Value indices, const Shape& shape, int64_t spatial);
// The same, storing instead of adding, over zeros.
Value store_at(Lowering& b, Value updates, Value indices, const Shape& shape, int64_t spatial);

// Type of indices into n elements.

}  // namespace torch_tpu::lowering
