#include "lowering/advanced_index.h"
#include "lowering/data_dependent.h"
#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {

namespace {

using Indices = std::vector<std::optional<Value>>;

// --- reads

Value index_select(Lowering& b, Value x, int64_t dim, Value index) {
  TT_CHECK(index.rank() <= 1, kIndex, "index_select(): Index is supposed to be a vector");
  const Shape shape = b.out().shape;
  x = at_least_1d(b, x);
  dim = Lowering::wrap_dim(dim, x.rank());
  return b.reshape(take_slices(b, x, dim, readable_index(b, at_least_1d(b, index), x.dim(dim))),
                   shape);
}

Value gather(Lowering& b, Value x, int64_t dim, Value index, Ignored) {
  const Shape shape = index.shape();
  if (index.numel() == 0) return b.constant(x.dtype(), 0, shape);
  x = at_least_1d(b, x);
  index = at_least_1d(b, index);
  dim = Lowering::wrap_dim(dim, x.rank());
  return b.reshape(take_elements(b, x, dim, readable_index(b, index, x.dim(dim))), shape);
}

Value take(Lowering& b, Value x, Value index) {
  return take_flat(b, b.flatten(x), readable_index(b, index, x.numel(), true));
}

Value index_tensor(Lowering& b, Value x, Indices indices) {
  return AdvancedIndex(b, x, indices).read(b, x);
}

Value embedding(Lowering& b, Value weight, Value indices, Ignored) {
  return take_slices(b, weight, 0, readable_index(b, indices, weight.dim(0)));
}

// --- x with indexed elements written

Value index_put(Lowering& b, Value x, Indices indices, Value values, bool accumulate) {
  const DType result = x.dtype();
  if (indices.size() == 1 && indices[0] && is_bool(indices[0]->dtype()) && values.numel() == 1 &&
      !accumulate) {
    // x[mask] = number
    Value mask = *indices[0];
    IntList leading = Lowering::all_dims(mask.rank());
    mask = b.broadcast_in_dim(mask, x.shape(), leading);
    return b.select(mask, b.broadcast(b.reshape(b.convert(values, result), {}), x.shape()), x);
  }
  AdvancedIndex at(b, x, indices);
  const DType type = accumulate ? accumulation_type(b, result) : result;
  values = b.broadcast(b.convert(values, type), at.result_shape());
  return at.write(b, b.convert(x, type), values,
                  accumulate ? Combiner::kAdd : Combiner::kOverwrite);
}

// Where the mask is false, neither the index nor the value counts.
Value unsafe_masked_index(Lowering& b, Value x, Value mask, Indices indices, Operand fill) {
  AdvancedIndex at(b, x, indices);
  Value taken = at.read(b, x);
  return b.bselect(mask, taken, b.number_like(fill, taken));
}

Value unsafe_masked_index_put_accumulate(Lowering& b, Value x, Value mask, Indices indices,
                                         Value values) {
  AdvancedIndex at(b, x, indices);
  const DType type = accumulation_type(b, x.dtype());
  values = b.broadcast(b.convert(values, type), at.result_shape());
  values = b.select(b.broadcast(mask, values.shape()), values, b.zeros_like(values));
  return at.write(b, b.convert(x, type), values, Combiner::kAdd);
}

Value put(Lowering& b, Value x, Value index, Value source, bool accumulate) {
  const DType type = accumulate ? accumulation_type(b, x.dtype()) : x.dtype();
  Value flat = b.flatten(b.convert(x, type));
  Value at = writable_index(b, b.flatten(index), x.numel(), true);
  flat = scatter_flat(b, flat, at, b.flatten(b.convert(source, type)),
                      accumulate ? Combiner::kAdd : Combiner::kOverwrite);
  return b.reshape(flat, x.shape());
}

Value masked_scatter(Lowering& b, Value x, Value mask, Value source) {
  b.broadcast_pair(x, mask);
  Value flat_mask = b.flatten(b.convert(mask, DType::kPred));
  Value place = count_up_to(b, flat_mask);
  Value at = readable_index(b, b.subtract(place, b.full_like(place, 1)), source.numel());
  Value taken = take_flat(b, b.flatten(b.convert(source, x.dtype())), at);
  return b.reshape(b.select(flat_mask, taken, b.flatten(x)), x.shape());
}

Value masked_scatter_backward(Lowering& b, Value grad, Value mask, IntList sizes) {
  b.broadcast_pair(grad, mask);
  Value front = compacted(b, b.flatten(grad), b.flatten(b.convert(mask, DType::kPred)));
  const int64_t low[] = {0};
  const int64_t high[] = {numel(sizes) - front.numel()};
  return b.reshape(b.pad(front, b.constant(grad.dtype(), 0), low, high), sizes);
}

}  // namespace

void register_indexing(OperatorTable& table) {
  register_data_dependent(table);
  register_embedding(table);
  table.add("index_select", index_select);
  table.add("gather", gather);
  table.add("take", take);
  table.add("index.Tensor", index_tensor);
  table.add("_unsafe_index.Tensor", index_tensor);
  table.add("_unsafe_masked_index", unsafe_masked_index);
  table.add("embedding", embedding);
  table.add("index_put", index_put);
  table.add("_index_put_impl", index_put);
  table.add("_unsafe_index_put", index_put);
  table.add("_unsafe_masked_index_put_accumulate", unsafe_masked_index_put_accumulate);
  table.add("put", put);
  table.add("masked_scatter", masked_scatter);
  table.add("masked_scatter_backward", masked_scatter_backward);
}

}  // namespace torch_tpu::lowering
