// Gradients of embedding, embedding_renorm, and embedding_bag.
#include <algorithm>
#include <cmath>

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {

namespace {

// How often each of `n` rows occurs in `index`, as `dtype`.
Value frequencies(Lowering& b, Value index, int64_t n, DType dtype) {
  return scatter_flat(b, b.constant(dtype, 0, {n}), index, b.constant(dtype, 1, index.shape()),
                      Combiner::kAdd);
}

// Writable row indices, those of the padding row dropped.
Value rows_but_padding(Lowering& b, Value index, int64_t n, int64_t padding) {
  index = writable_index(b, index, n);
  if (padding < 0) return index;
  Value pad = b.compare(index, b.constant_int(index.dtype(), padding, index.shape()), Compare::kEq);
  return b.select(pad, b.constant_int(index.dtype(), n, index.shape()), index);
}

// grad [k, d] divided by the number of times its row occurs.
Value by_frequency(Lowering& b, Value grad, Value rows, int64_t n) {
  Value count = take_flat(b, frequencies(b, rows, n, grad.dtype()), readable_index(b, rows, n));
  count = b.maximum(count, b.full_like(count, 1));
  return b.bdiv(grad, b.unsqueeze(count, 1));
}

Value embedding_dense_backward(Lowering& b, Value grad, Value indices, int64_t num_weights,
                               int64_t padding, bool scale_by_frequency) {
  const int64_t width = grad.dim(-1);
  Value rows = rows_but_padding(b, b.flatten(indices), num_weights, padding);
  Value updates = b.reshape(grad, {rows.numel(), width});
  if (scale_by_frequency) updates = by_frequency(b, updates, rows, num_weights);
  return scatter_slices(b, b.constant(grad.dtype(), 0, {num_weights, width}), 0, rows, updates,
                        Combiner::kAdd);
}

// Rows named in `indices` with a norm above max_norm are scaled down to it.
Value embedding_renorm(Lowering& b, Value weight, Value indices, double max_norm,
                       double norm_type) {
  const int64_t n = weight.dim(0);
  const int64_t last[] = {1};
  Value size = b.abs(weight);
  Value norm;
  if (std::isinf(norm_type)) {
    norm = b.reduce_max(size, last);
  } else {
    Value total = b.sum(b.power(size, b.full_like(size, norm_type)), last);
    norm = b.power(total, b.full_like(total, 1.0 / norm_type));
  }
  Value named = frequencies(b, writable_index(b, b.flatten(indices), n), n, DType::kS32);
  Value limit = b.full_like(norm, max_norm);
  Value scaled = b.and_(b.compare(norm, limit, Compare::kGt),
                        b.compare(named, b.zeros_like(named), Compare::kGt));
  Value factor = b.divide(limit, b.add_scalar(norm, 1e-7));
  factor = b.select(scaled, factor, b.full_like(norm, 1));
  return b.bmul(weight, b.unsqueeze(factor, 1));
}

// --- embedding_bag

enum BagMode { kSum = 0, kMean = 1, kMax = 2 };

// The bag each of `count` indices lies in, from the start positions of the bags.
Value bag_of_index(Lowering& b, Value offsets, int64_t count, int64_t bags) {
  if (offsets.dim(0) > bags) offsets = b.slice_dim(offsets, 0, 0, bags);
  const DType type = index_type(count + bags);
  Value starts = scatter_flat(b, b.constant_int(type, 0, {count}),
                              b.convert(writable_index(b, offsets, count), type),
                              b.constant_int(type, 1, offsets.shape()), Combiner::kAdd);
  Value upto = inclusive_scan(b, starts, 0, Combiner::kAdd);
  return b.subtract(upto, b.full_like(upto, 1));
}

Value padding_mask(Lowering& b, Value indices, int64_t padding) {
  return b.compare(indices, b.constant_int(indices.dtype(), padding, indices.shape()),
                   Compare::kEq);
}

// `value` with as many rows as the result of the call has: PyTorch leaves out what it doesn't need,
// and counts the end of the last bag as a bag of its own.
Value fitted(Lowering& b, Value value, size_t i) {
  const Shape& shape = b.out(i).shape;
  if (static_cast<int64_t>(shape.size()) != value.rank())
    return b.constant(value.dtype(), 0, shape);
  Shape low(shape.size(), 0);
  Shape high(shape.size());
  for (size_t d = 0; d < shape.size(); ++d) high[d] = shape[d] - value.shape()[d];
  return b.pad(value, b.constant(value.dtype(), 0), low, high);
}

Values embedding_bag(Lowering& b, Value weight, Value indices, Value offsets, Ignored, int64_t mode,
                     Ignored, std::optional<Value> sample_weights, bool include_last_offset,
                     int64_t padding) {
  const DType result = weight.dtype();
  const DType type = opmath(result);
  const int64_t bags = offsets.dim(0) - (include_last_offset ? 1 : 0);
  const int64_t count = indices.dim(0);
  const int64_t width = weight.dim(1);
  Value bag = bag_of_index(b, offsets, count, bags);
  Value used = bag;
  if (padding >= 0) {
    used = b.select(padding_mask(b, indices, padding),
                    b.constant_int(bag.dtype(), bags, bag.shape()), bag);
  }
  Value rows =
      b.convert(take_slices(b, weight, 0, readable_index(b, indices, weight.dim(0))), type);
  if (sample_weights) rows = b.bmul(rows, b.unsqueeze(b.convert(*sample_weights, type), 1));
  Value sizes = frequencies(b, used, bags, DType::kS64);
  Value out = b.constant(type, 0, {bags, width});
  Value best = b.constant_int(DType::kS64, 0, {bags, width});
  if (mode == kMax) {
    Value lowest = b.neg_inf(type, {bags, width});
    Value highest = scatter_slices(b, lowest, 0, used, rows, Combiner::kMax);
    Value empty = b.broadcast_in_dim(b.compare(sizes, b.zeros_like(sizes), Compare::kEq),
                                     out.shape(), IntList{0});
    out = b.select(empty, out, highest);
    // The first index of the bag that reaches the maximum, per column.
    Value reached =
        b.compare(rows, take_slices(b, highest, 0, readable_index(b, bag, bags)), Compare::kEq);
    Value at = b.iota({DType::kS64, {count, width}}, 0);
    Value none = b.constant_int(DType::kS64, count, {bags, width});
    Value first = scatter_slices(b, none, 0, used,
                                 b.select(reached, at, b.full_like(at, static_cast<double>(count))),
                                 Combiner::kMin);
    Value named = take_flat(b, b.convert(indices, DType::kS64), readable_index(b, first, count));
    best = b.select(empty, best, named);
  } else {
    out = scatter_slices(b, out, 0, used, rows, Combiner::kAdd);
    if (mode == kMean) {
      Value n = b.convert(b.maximum(sizes, b.full_like(sizes, 1)), type);
      out = b.bdiv(out, b.unsqueeze(n, 1));
    }
  }
  Value offset2bag = b.convert(bag, DType::kS64);
  return {b.convert(out, result), fitted(b, offset2bag, 1), fitted(b, sizes, 2),
          fitted(b, best, 3)};
}

// What each index receives of its bag's gradient: [count, width]; the padding's rows are dropped
// later.
Value embedding_bag_dense(Lowering& b, Value grad, Value indices, Value bag, Value sizes,
                          Value best, int64_t num_weights, bool scale_by_frequency, int64_t mode,
                          const std::optional<Value>& sample_weights, int64_t padding) {
  const DType result = grad.dtype();
  grad = b.convert(grad, opmath(result));
  const int64_t width = grad.dim(1);
  const int64_t bags = grad.dim(0);
  if (sizes.dim(0) > bags) sizes = b.slice_dim(sizes, 0, 0, bags);
  if (best.rank() == 2 && best.dim(0) > bags) best = b.slice_dim(best, 0, 0, bags);
  Value out = b.constant(grad.dtype(), 0, {num_weights, width});
  if (mode == kMax) {
    Value column = b.iota({index_type(num_weights * width), {grad.dim(0), width}}, 1);
    Value row = b.convert(writable_index(b, best, num_weights), column.dtype());
    Value at = b.add(b.multiply(row, b.full_like(row, static_cast<double>(width))), column);
    Value filled = b.broadcast_in_dim(b.compare(sizes, b.zeros_like(sizes), Compare::kGt),
                                      at.shape(), IntList{0});
    at = b.select(filled, at, b.full_like(at, static_cast<double>(num_weights * width)));
    Value flat = scatter_flat(b, b.flatten(out), at, grad, Combiner::kAdd);
    return b.convert(b.reshape(flat, {num_weights, width}), result);
  }
  Value readable = readable_index(b, bag, bags);
  Value updates = take_slices(b, grad, 0, readable);
  if (mode == kMean) {
    Value n =
        b.convert(take_flat(b, b.maximum(sizes, b.full_like(sizes, 1)), readable), grad.dtype());
    updates = b.bdiv(updates, b.unsqueeze(n, 1));
  }
  if (sample_weights)
    updates = b.bmul(updates, b.unsqueeze(b.convert(*sample_weights, grad.dtype()), 1));
  Value rows = rows_but_padding(b, indices, num_weights, padding);
  if (scale_by_frequency) updates = by_frequency(b, updates, rows, num_weights);
  return b.convert(scatter_slices(b, out, 0, rows, updates, Combiner::kAdd), result);
}

Value embedding_bag_dense_backward(Lowering& b, Value grad, Value indices, Value offset2bag,
                                   Value sizes, Value best, int64_t num_weights,
                                   bool scale_by_frequency, int64_t mode,
                                   std::optional<Value> sample_weights, int64_t padding) {
  return embedding_bag_dense(b, grad, indices, offset2bag, sizes, best, num_weights,
                             scale_by_frequency, mode, sample_weights, padding);
}

Value embedding_bag_backward(Lowering& b, Value grad, Value indices, Value offsets, Ignored,
                             Value sizes, Value best, int64_t num_weights, bool scale_by_frequency,
                             int64_t mode, bool sparse, std::optional<Value> sample_weights,
                             int64_t padding) {
  if (sparse) b.not_implemented("a sparse gradient");
  Value bag = bag_of_index(b, offsets, indices.dim(0), grad.dim(0));
  return embedding_bag_dense(b, grad, indices, bag, sizes, best, num_weights, scale_by_frequency,
                             mode, sample_weights, padding);
}

Value embedding_bag_weights_backward(Lowering& b, Value grad, Value weight, Value indices,
                                     Value offsets, Ignored, int64_t mode, int64_t padding) {
  TT_CHECK(mode == kSum, kInvalidArgument,
           "embedding_bag_backward: per_sample_weights only supported for mode='sum'");
  const DType type = opmath(grad.dtype());
  Value bag = readable_index(b, bag_of_index(b, offsets, indices.dim(0), grad.dim(0)), grad.dim(0));
  Value g = b.convert(take_slices(b, grad, 0, bag), type);
  Value rows =
      b.convert(take_slices(b, weight, 0, readable_index(b, indices, weight.dim(0))), type);
  const int64_t last[] = {1};
  Value out = b.sum(b.multiply(g, rows), last);
  if (padding >= 0) out = b.select(padding_mask(b, indices, padding), b.zeros_like(out), out);
  return b.convert(out, grad.dtype());
}

}  // namespace

void register_embedding(OperatorTable& table) {
  table.add("embedding_dense_backward", embedding_dense_backward, {.opmath = true});
  table.add("embedding_renorm", embedding_renorm);
  table.add("_embedding_bag", embedding_bag);
  table.add("_embedding_bag_forward_only", embedding_bag);
  table.add("_embedding_bag_backward", embedding_bag_backward);
  table.add("_embedding_bag_dense_backward", embedding_bag_dense_backward);
  table.add("_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward);
}

}  // namespace torch_tpu::lowering
