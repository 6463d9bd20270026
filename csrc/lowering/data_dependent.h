#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// Programs whose results have a size that only the data tells. Each is bounded: results are padded
// to the largest size possible and the last result is the true size, an int64 scalar. The caller
// slices.

// Coordinates [size, rank] (index_type) of the first `size` true elements of mask, in row-major
// order; rows past the last one hold zeros.
Value nonzero_positions(Lowering& b, Value mask, int64_t size);

// The selected elements of a vector in front, padded with zeros to the vector's length.
Value compacted(Lowering& b, Value x, Value mask);

}  // namespace torch_tpu::lowering
