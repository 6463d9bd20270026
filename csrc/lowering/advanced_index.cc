#include "lowering/advanced_index.h"

#include <algorithm>

#include "lowering/index_math.h"

namespace torch_tpu::lowering {

AdvancedIndex::AdvancedIndex(Lowering& b, Value x, const std::vector<std::optional<Value>>& indices)
    : shape_(x.shape()) {
  TT_CHECK(static_cast<int64_t>(indices.size()) <= x.rank(), kIndex,
           "too many indices for tensor of dimension ", x.rank(), " (got ", indices.size(), ")");
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d]) continue;
    if (is_bool(indices[d]->dtype())) b.not_implemented("a bool mask inside a program");
    dims_.push_back(static_cast<int64_t>(d));
    indices_.push_back(*indices[d]);
  }
  for (Value i : indices_) common_ = Lowering::broadcast_shapes(common_, i.shape());
  const bool adjacent =
      !dims_.empty() && dims_.back() - dims_.front() + 1 == static_cast<int64_t>(dims_.size());
  place_ = adjacent ? dims_.front() : 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(dims_.begin(), dims_.end(), d) == dims_.end()) result_shape_.push_back(x.dim(d));
  }
  result_shape_.insert(result_shape_.begin() + place_, common_.begin(), common_.end());
}

Value AdvancedIndex::stacked(Lowering& b, bool readable) const {
  Values columns;
  DType type = DType::kS32;
  for (size_t i = 0; i < dims_.size(); ++i) {
    const int64_t n = shape_[static_cast<size_t>(dims_[i])];
    if (index_type(n) == DType::kS64) type = DType::kS64;
    columns.push_back(readable ? readable_index(b, indices_[i], n, true)
                               : writable_index(b, indices_[i], n, true));
  }
  for (Value& c : columns) c = b.broadcast(b.convert(c, type), common_);
  if (columns.size() == 1) return columns[0];
  for (Value& c : columns) c = b.unsqueeze(c, c.rank());
  return b.concatenate(columns, static_cast<int64_t>(common_.size()));
}

Value AdvancedIndex::read(Lowering& b, Value x) const {
  if (dims_.empty()) return x;
  if (numel(result_shape_) == 0 || x.numel() == 0) return b.constant(x.dtype(), 0, result_shape_);
  stablehlo::GatherDims g;
  const auto common_rank = static_cast<int64_t>(common_.size());
  for (int64_t i = 0; i < static_cast<int64_t>(result_shape_.size()); ++i) {
    if (i < place_ || i >= place_ + common_rank) g.offset_dims.push_back(i);
  }
  g.collapsed_slice_dims = dims_;
  g.start_index_map = dims_;
  g.index_vector_dim = common_rank;
  g.slice_sizes = shape_;
  for (int64_t d : dims_) g.slice_sizes[static_cast<size_t>(d)] = 1;
  return b.gather(x, stacked(b, true), g);
}

Value AdvancedIndex::write(Lowering& b, Value x, Value values, Combiner combiner) const {
  if (numel(result_shape_) == 0 || x.numel() == 0) return x;
  if (dims_.empty()) {
    return combiner == Combiner::kOverwrite ? values : b.badd(x, values);
  }
  stablehlo::ScatterDims s;
  const auto common_rank = static_cast<int64_t>(common_.size());
  for (int64_t i = 0; i < static_cast<int64_t>(result_shape_.size()); ++i) {
    if (i < place_ || i >= place_ + common_rank) s.update_window_dims.push_back(i);
  }
  s.inserted_window_dims = dims_;
  s.scatter_dims_to_operand_dims = dims_;
  s.index_vector_dim = common_rank;
  return b.scatter(x, stacked(b, false), values, s, for_type(combiner, x.dtype()));
}

}  // namespace torch_tpu::lowering
