#include "lowering/index_math.h"

#include <limits>

namespace torch_tpu::lowering {

using stablehlo::GatherDims;
using stablehlo::ScatterDims;

DType index_type(int64_t n) {
  return n < std::numeric_limits<int32_t>::max() ? DType::kS32 : DType::kS64;
}

Value positions(Lowering& b, int64_t n) { return b.iota({index_type(n), {n}}, 0); }

namespace {

// Narrow and unsigned indices as int32; int64 stays until its range is known.
Value signed_index(Lowering& b, Value index) {
  return index.dtype() == DType::kS64 ? index : b.convert(index, DType::kS32);
}

Value constant_index(Lowering& b, Value like, int64_t v) {
  return b.constant_int(like.dtype(), v, like.shape());
}

Value wrapped(Lowering& b, Value index, int64_t n, bool wrap) {
  if (!wrap) return index;
  Value negative = b.compare(index, constant_index(b, index, 0), Compare::kLt);
  return b.select(negative, b.add(index, constant_index(b, index, n)), index);
}

Value wide_enough(Lowering& b, Value index, int64_t n) {
  return index_type(n) == DType::kS64 ? b.convert(index, DType::kS64) : index;
}

}  // namespace

Value readable_index(Lowering& b, Value index, int64_t n, bool wrap) {
  index = wrapped(b, wide_enough(b, signed_index(b, index), n), n, wrap);
  index = b.clamp(b.constant_int(index.dtype(), 0), index,
                  b.constant_int(index.dtype(), std::max<int64_t>(n - 1, 0)));
  return b.convert(index, index_type(n));
}

Value writable_index(Lowering& b, Value index, int64_t n, bool wrap) {
  index = wrapped(b, wide_enough(b, signed_index(b, index), n), n, wrap);
  Value inside = b.and_(b.compare(index, constant_index(b, index, 0), Compare::kGe),
                        b.compare(index, constant_index(b, index, n), Compare::kLt));
  return b.convert(b.select(inside, index, constant_index(b, index, n)), index_type(n));
}

Value take_flat(Lowering& b, Value flat, Value index) { return take_slices(b, flat, 0, index); }

Value take_slices(Lowering& b, Value x, int64_t dim, Value index) {
  Shape result = x.shape();
  result.erase(result.begin() + dim);
  result.insert(result.begin() + dim, index.shape().begin(), index.shape().end());
  if (numel(result) == 0 || x.numel() == 0) return b.constant(x.dtype(), 0, result);
  GatherDims dims;
  for (int64_t i = 0; i < static_cast<int64_t>(result.size()); ++i) {
    if (i < dim || i >= dim + index.rank()) dims.offset_dims.push_back(i);
  }
  dims.collapsed_slice_dims = {dim};
  dims.start_index_map = {dim};
  dims.index_vector_dim = index.rank();
  dims.slice_sizes = x.shape();
  dims.slice_sizes[static_cast<size_t>(dim)] = 1;
  return b.gather(x, index, dims);
}

namespace {

// Row-major position of each element of `index` in a tensor of `shape`, its coordinate along `dim`
// replaced by the index.
Value linear_positions(Lowering& b, const Shape& shape, int64_t dim, Value index) {
  const DType type = index_type(numel(shape));
  Value out = b.constant_int(type, 0, index.shape());
  int64_t stride = 1;
  for (int64_t d = static_cast<int64_t>(shape.size()) - 1; d >= 0; --d) {
    if (d == dim || index.dim(d) != 1) {
      Value coordinate = d == dim ? b.convert(index, type) : b.iota({type, index.shape()}, d);
      if (stride != 1)
        coordinate = b.multiply(coordinate, b.constant_int(type, stride, index.shape()));
      out = b.add(out, coordinate);
    }
    stride *= shape[static_cast<size_t>(d)];
  }
  return out;
}

}  // namespace

Value take_elements(Lowering& b, Value x, int64_t dim, Value index) {
  if (index.numel() == 0 || x.numel() == 0) return b.constant(x.dtype(), 0, index.shape());
  return take_flat(b, b.flatten(x), linear_positions(b, x.shape(), dim, index));
}

Value scatter_flat(Lowering& b, Value flat, Value index, Value updates, Combiner combiner,
                   bool unique) {
  if (index.numel() == 0 || flat.numel() == 0) return flat;
  ScatterDims dims;
  dims.inserted_window_dims = {0};
  dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = index.rank();
  dims.unique_indices = unique;
  return b.scatter(flat, index, updates, dims, for_type(combiner, flat.dtype()));
}

Value scatter_slices(Lowering& b, Value x, int64_t dim, Value index, Value updates,
                     Combiner combiner) {
  if (updates.numel() == 0 || x.numel() == 0) return x;
  ScatterDims dims;
  for (int64_t i = 0; i < updates.rank(); ++i) {
    if (i != dim) dims.update_window_dims.push_back(i);
  }
  dims.inserted_window_dims = {dim};
  dims.scatter_dims_to_operand_dims = {dim};
  dims.index_vector_dim = index.rank();
  return b.scatter(x, index, updates, dims, for_type(combiner, x.dtype()));
}

Value scatter_elements(Lowering& b, Value x, int64_t dim, Value index, Value updates,
                       Combiner combiner) {
  if (index.numel() == 0 || x.numel() == 0) return x;
  Value along = writable_index(b, index, x.dim(dim));
  Value linear = linear_positions(b, x.shape(), dim, along);
  Value outside =
      b.compare(along, b.constant_int(along.dtype(), x.dim(dim), along.shape()), Compare::kEq);
  linear = b.select(outside, b.constant_int(linear.dtype(), x.numel(), linear.shape()), linear);
  Value out = scatter_flat(b, b.flatten(x), linear, corner(b, updates, index.shape()), combiner);
  return b.reshape(out, x.shape());
}

Value corner(Lowering& b, Value x, const Shape& shape) {
  return b.slice(x, Shape(shape.size(), 0), shape);
}

Value at_least_1d(Lowering& b, Value x) { return x.rank() == 0 ? b.reshape(x, {1}) : x; }

DType accumulation_type(const Lowering& b, DType dtype) {
  return b.settings().is_cpu ? dtype : opmath(dtype);
}

Combiner for_type(Combiner combiner, DType dtype) {
  if (!is_bool(dtype)) return combiner;
  switch (combiner) {
    case Combiner::kMax:
      return Combiner::kOr;
    case Combiner::kMin:
      return Combiner::kAnd;
    default:
      return combiner;
  }
}

}  // namespace torch_tpu::lowering
