#pragma once

#include <optional>
#include <vector>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// x[i, :, j, ...] with integer index tensors, as PyTorch and NumPy define it: the tensors are
// broadcast together, and their shape takes the place of the first indexed dimension where those
// are adjacent, else comes first.
class AdvancedIndex {
 public:
  // nullopt for a dimension that is kept whole. Negative indices count from the end. Indices must
  // be integers: a bool mask has a data-dependent number of elements and becomes integers earlier.
  AdvancedIndex(Lowering& b, Value x, const std::vector<std::optional<Value>>& indices);

  // Shape of x[indices].
  const Shape& result_shape() const { return result_shape_; }
  Value read(Lowering& b, Value x) const;
  // x with `values` (of result_shape) combined in; indices outside x are dropped.
  Value write(Lowering& b, Value x, Value values, Combiner combiner) const;

 private:
  Value stacked(Lowering& b, bool readable) const;

  Shape shape_;
  IntList dims_;    // indexed dimensions
  Values indices_;  // one per indexed dimension, of the common shape
  Shape common_;
  int64_t place_ = 0;  // where the common shape goes in the result
  Shape result_shape_;
};

}  // namespace torch_tpu::lowering
