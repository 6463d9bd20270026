#include "lowering/window.h"

#include <algorithm>

namespace torch_tpu::lowering {

int64_t Band::widest() const {
  size_t n = 0;
  for (const auto& row : weights) n = std::max(n, row.size());
  return static_cast<int64_t>(n);
}

Band transposed(const Band& band) {
  Band out;
  out.size = band.rows();
  IntList first(static_cast<size_t>(band.size), -1);
  out.weights.resize(static_cast<size_t>(band.size));
  for (size_t o = 0; o < band.start.size(); ++o) {
    for (size_t t = 0; t < band.weights[o].size(); ++t) {
      const auto i = static_cast<size_t>(band.start[o]) + t;
      auto& row = out.weights.at(i);
      if (first[i] < 0) first[i] = static_cast<int64_t>(o);
      row.resize(o - static_cast<size_t>(first[i]) + 1, 0);
      row.back() = band.weights[o][t];
    }
  }
  for (int64_t& f : first) f = std::max<int64_t>(f, 0);
  out.start = std::move(first);
  return out;
}

Value take(Lowering& b, Value x, int64_t dim, const IntList& index) {
  const int64_t size = x.dim(dim);
  const auto n = static_cast<int64_t>(index.size());
  if (n > 0) {
    const int64_t stride = n > 1 ? index[1] - index[0] : 1;
    bool arithmetic = stride > 0;
    for (size_t i = 1; i < index.size() && arithmetic; ++i)
      arithmetic = index[i] - index[i - 1] == stride;
    if (arithmetic) return b.slice_dim(x, dim, index[0], index.back() + 1, stride);
    const int64_t repeat = n / std::max<int64_t>(size, 1);
    bool repeats = repeat * size == n;
    for (size_t i = 0; i < index.size() && repeats; ++i)
      repeats = index[i] == static_cast<int64_t>(i) / repeat;
    if (repeats) {
      Shape wide = x.shape();
      wide.insert(wide.begin() + dim + 1, repeat);
      IntList dims = Lowering::all_dims(x.rank());
      for (auto d = static_cast<size_t>(dim) + 1; d < dims.size(); ++d) ++dims[d];
      Shape shape = x.shape();
      shape[static_cast<size_t>(dim)] = n;
      return b.reshape(b.broadcast_in_dim(x, wide, dims), shape);
    }
  }
  Value flat = take_windows(b, x, dim, index, n);
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = n;
  return b.reshape(flat, shape);
}

Value take_windows(Lowering& b, Value x, int64_t dim, const IntList& index, int64_t rows) {
  const int64_t width = rows == 0 ? 1 : static_cast<int64_t>(index.size()) / rows;
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = rows;
  shape.insert(shape.begin() + dim + 1, width);
  if (numel(shape) == 0) return b.constant(x.dtype(), 0, shape);
  bool partition = rows * width == x.dim(dim);
  for (size_t i = 0; i < index.size() && partition; ++i)
    partition = index[i] == static_cast<int64_t>(i);
  if (partition) return b.reshape(x, shape);
  stablehlo::GatherDims dims;
  dims.collapsed_slice_dims = dims.start_index_map = {dim};
  for (int64_t d = 0; d < x.rank() + 1; ++d) {
    if (d != dim && d != dim + 1) dims.offset_dims.push_back(d);
  }
  dims.index_vector_dim = 2;
  dims.slice_sizes = x.shape();
  dims.slice_sizes[static_cast<size_t>(dim)] = 1;
  return b.gather(x, b.constant_list(DType::kS32, index, {rows, width}), dims);
}

namespace {

// Column `t` of the band: positions (clamped into the row), weights, and which rows reach that far.
struct Column {
  IntList index;
  std::vector<double> weights;
  IntList inside;
};

Column column(const Band& band, int64_t t) {
  Column out;
  for (size_t o = 0; o < band.start.size(); ++o) {
    const auto width = static_cast<int64_t>(band.weights[o].size());
    const int64_t at = std::clamp<int64_t>(t, 0, std::max<int64_t>(width - 1, 0));
    out.index.push_back(std::min(band.start[o] + at, band.size - 1));
    out.weights.push_back(t < width ? band.weights[o][static_cast<size_t>(t)] : 0);
    out.inside.push_back(t < width ? 1 : 0);
  }
  return out;
}

bool all_equal(const std::vector<double>& v, double x) {
  return std::all_of(v.begin(), v.end(), [x](double w) { return w == x; });
}

// x * weights where inside, else zero, with the lists along `dims` of x.
Value weighted(Lowering& b, Value x, const std::vector<double>& weights, const IntList& inside,
               const Shape& list_shape, const IntList& dims) {
  if (!all_equal(weights, 1)) {
    Value w = all_equal(weights, weights[0]) ? b.scalar(x.dtype(), weights[0])
                                             : b.constant_floats(x.dtype(), weights, list_shape);
    x = b.multiply(x, b.broadcast_in_dim(w, x.shape(), w.rank() == 0 ? IntList{} : dims));
  }
  if (std::find(inside.begin(), inside.end(), 0) == inside.end()) return x;
  Value mask = b.compare(b.constant_list(DType::kS32, inside, list_shape),
                         b.constant_int(DType::kS32, 0, list_shape), Compare::kNe);
  return b.select(b.broadcast_in_dim(mask, x.shape(), dims), x, b.zeros_like(x));
}

constexpr int64_t kUnrolledWidth = 4;

}  // namespace

Value apply_band(Lowering& b, Value x, int64_t dim, const Band& band) {
  const int64_t width = band.widest();
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = band.rows();
  if (width == 0 || x.numel() == 0 || numel(shape) == 0) return b.constant(x.dtype(), 0, shape);
  bool partition = band.rows() * width == band.size;
  for (size_t o = 0; o < band.start.size() && partition; ++o) {
    partition = band.start[o] == static_cast<int64_t>(o) * width &&
                band.weights[o].size() == static_cast<size_t>(width);
  }
  if (width <= kUnrolledWidth && !partition) {
    Value sum;
    for (int64_t t = 0; t < width; ++t) {
      const Column c = column(band, t);
      Value term = weighted(b, take(b, x, dim, c.index), c.weights, c.inside, {band.rows()}, {dim});
      sum = t == 0 ? term : b.add(sum, term);
    }
    return sum;
  }
  const auto cells = static_cast<size_t>(band.rows() * width);
  Column all{IntList(cells), std::vector<double>(cells), IntList(cells)};
  for (int64_t t = 0; t < width; ++t) {
    const Column c = column(band, t);
    for (size_t o = 0; o < c.index.size(); ++o) {
      const size_t at = o * static_cast<size_t>(width) + static_cast<size_t>(t);
      all.index[at] = c.index[o];
      all.weights[at] = c.weights[o];
      all.inside[at] = c.inside[o];
    }
  }
  // Equal weights are applied after the sum.
  double common = 0;
  bool uniform = true;
  for (size_t i = 0; i < all.weights.size(); ++i) {
    if (all.inside[i] == 0) continue;
    if (common == 0) common = all.weights[i];
    uniform &= all.weights[i] == common;
  }
  if (uniform) all.weights.assign(all.weights.size(), 1);
  Value windows = take_windows(b, x, dim, all.index, band.rows());
  windows = weighted(b, windows, all.weights, all.inside, {band.rows(), width}, {dim, dim + 1});
  Value sum = b.sum(windows, IntList{dim + 1});
  return uniform && common != 1 ? b.mul_scalar(sum, common) : sum;
}

namespace {

Value scatter_planes(Lowering& b, Value updates, Value indices, const Shape& shape, int64_t spatial,
                     Combiner combiner) {
  int64_t plane = 1;
  for (size_t i = shape.size() - static_cast<size_t>(spatial); i < shape.size(); ++i)
    plane *= shape[i];
  const int64_t total = numel(shape);
  if (total == 0 || updates.numel() == 0) return b.constant(updates.dtype(), 0, shape);
  const DType type = index_type(total);
  const int64_t planes = total / plane;
  const int64_t per_plane = updates.numel() / planes;
  Value offset = b.multiply(b.iota({type, {planes, per_plane}}, 0),
                            b.constant_int(type, plane, {planes, per_plane}));
  Value at = b.add(b.convert(b.reshape(indices, {planes, per_plane}), type), offset);
  stablehlo::ScatterDims dims;
  dims.inserted_window_dims = dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = 1;
  Value out = b.scatter(b.constant(updates.dtype(), 0, {total}), b.flatten(at), b.flatten(updates),
                        dims, combiner);
  return b.reshape(out, shape);
}

}  // namespace

Value add_at(Lowering& b, Value updates, Value indices, const Shape& shape, int64_t spatial) {
  return scatter_planes(b, updates, indices, shape, spatial, Combiner::kAdd);
}

Value store_at(Lowering& b, Value updates, Value indices, const Shape& shape, int64_t spatial) {
  return scatter_planes(b, updates, indices, shape, spatial, Combiner::kOverwrite);
}

}  // namespace torch_tpu::lowering
