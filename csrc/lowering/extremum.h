#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// The first position along `dim` where `pred` holds, as index_type; 0 where none does. dim is
// removed.
Value first_position(Lowering& b, Value pred, int64_t dim);

// {values, indices} of the maximum (or minimum) along `dim`, which is removed. NaN wins; the first
// of equal elements is named.
Values extremum(Lowering& b, Value x, int64_t dim, Combiner combiner);

// Maximum or minimum over dims for any type, bool included; NaN wins.
Value reduce_extremum(Lowering& b, Value x, std::span<const int64_t> dims, bool keepdim,
                      Combiner combiner);

}  // namespace torch_tpu::lowering
