#include <algorithm>
#include <utility>

#include "lowering/operator_table.h"
#include "lowering/pooling.h"
#include "lowering/window.h"

namespace torch_tpu::lowering {

namespace {

// A maximum and where in its plane it was found. Of equal elements the first wins, of NaNs the
// last, as in PyTorch's loop `if (x > best || isnan(x))`.
struct Best {
  Value value;
  Value index;
};

constexpr int64_t kNowhere = -1;       // index of padding
constexpr int64_t kUnrolledTaps = 16;  // beyond, windows are gathered and reduced

// The better of two, `next` coming after `best` in memory.
Best better(Lowering& b, const Best& best, const Best& next, bool best_may_be_padding) {
  Value wins = b.compare(next.value, best.value, Compare::kGt);
  if (is_float(next.value.dtype())) wins = b.or_(wins, b.is_nan(next.value));
  if (best_may_be_padding) {  // a window of nothing but -inf reports its first element
    Value nowhere = b.constant_int(best.index.dtype(), kNowhere, best.index.shape());
    wins = b.or_(wins, b.compare(best.index, nowhere, Compare::kEq));
  }
  return {b.select(wins, next.value, best.value), b.select(wins, next.index, best.index)};
}

// The best along dimensions `dims`, whatever the order of combination.
Best reduce_best(Lowering& b, const Best& x, const IntList& dims) {
  const Value xs[] = {x.value, x.index};
  const int64_t last = x.index.dtype() == DType::kS32 ? INT32_MAX : INT64_MAX;
  const Value inits[] = {b.neg_inf(x.value.dtype()), b.constant_int(x.index.dtype(), last)};
  const Values out = b.reduce(xs, inits, dims, [&](std::span<const Value> v) -> Values {
    const Value x_value = v[0], x_index = v[1], y_value = v[2], y_index = v[3];
    Value tie = b.and_(b.compare(y_value, x_value, Compare::kEq),
                       b.compare(y_index, x_index, Compare::kLt));
    Value wins = b.or_(b.compare(y_value, x_value, Compare::kGt), tie);
    if (is_float(x_value.dtype())) {
      Value x_nan = b.is_nan(x_value);
      Value later = b.or_(b.not_(x_nan), b.compare(y_index, x_index, Compare::kGt));
      wins = b.or_(wins, b.and_(b.is_nan(y_value), later));
    }
    return {b.select(wins, y_value, x_value), b.select(wins, y_index, x_index)};
  });
  return {out[0], out[1]};
}

// Every element with its flat position in the plane of the last `spatial` dimensions.
Best with_positions(Lowering& b, Value x, int64_t spatial) {
  const Shape plane(x.shape().end() - spatial, x.shape().end());
  const int64_t n = numel(plane);
  return {x, b.broadcast(b.reshape(b.iota({index_type(n), {n}}, 0), plane), x.shape())};
}

struct Window {
  int64_t kernel, stride, padding, dilation;
};

Best pool_unrolled(Lowering& b, Best x, int64_t dim, const Window& w, int64_t out) {
  const int64_t reach = (out - 1) * w.stride + (w.kernel - 1) * w.dilation + 1;
  IntList low(static_cast<size_t>(x.value.rank()), 0), high = low;
  low[static_cast<size_t>(dim)] = w.padding;
  high[static_cast<size_t>(dim)] = reach - w.padding - x.value.dim(dim);
  x.value = b.pad(x.value, b.neg_inf(x.value.dtype()), low, high);
  x.index = b.pad(x.index, b.constant_int(x.index.dtype(), kNowhere), low, high);
  Best best;
  for (int64_t t = 0; t < w.kernel; ++t) {
    const int64_t start = t * w.dilation;
    const int64_t limit = start + (out - 1) * w.stride + 1;
    const Best tap{b.slice_dim(x.value, dim, start, limit, w.stride),
                   b.slice_dim(x.index, dim, start, limit, w.stride)};
    best = t == 0 ? tap : better(b, best, tap, w.padding > 0);
  }
  return best;
}

// Positions row-major [rows][width]; rows with fewer repeat their last, which changes no maximum.
struct Positions {
  IntList index;
  int64_t rows = 0;
};

Positions positions(const std::vector<IntList>& rows) {
  size_t width = 1;
  for (const IntList& row : rows) width = std::max(width, row.size());
  Positions out;
  out.rows = static_cast<int64_t>(rows.size());
  for (const IntList& row : rows) {
    for (size_t t = 0; t < width; ++t)
      out.index.push_back(row.empty() ? 0 : row[std::min(t, row.size() - 1)]);
  }
  return out;
}

Best pool_gathered(Lowering& b, const Best& x, int64_t dim, const std::vector<IntList>& rows) {
  const Positions at = positions(rows);
  const Best windows{take_windows(b, x.value, dim, at.index, at.rows),
                     take_windows(b, x.index, dim, at.index, at.rows)};
  return reduce_best(b, windows, {dim + 1});
}

Best pool_dimension(Lowering& b, const Best& x, int64_t dim, const Window& w, int64_t out) {
  if (w.kernel == 1 && w.stride == 1 && w.padding == 0) return x;
  if (w.kernel <= kUnrolledTaps) return pool_unrolled(b, x, dim, w, out);
  std::vector<IntList> rows(static_cast<size_t>(out));
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t t = 0; t < w.kernel; ++t) {
      const int64_t at = o * w.stride - w.padding + t * w.dilation;
      if (at >= 0 && at < x.value.dim(dim)) rows[static_cast<size_t>(o)].push_back(at);
    }
  }
  return pool_gathered(b, x, dim, rows);
}

std::pair<Value, Value> finished(Lowering& b, const Best& best) {
  return {best.value, b.convert(best.index, DType::kS64)};
}

std::pair<Value, Value> nothing(Lowering& b, Value x) {
  return {b.constant(x.dtype(), 0, b.out().shape), b.constant_int(DType::kS64, 0, b.out().shape)};
}

// A maximum over a box is a maximum along each dimension in turn, the last first.
template <size_t N>
std::pair<Value, Value> max_pool_with_indices(Lowering& b, Value self, IntList kernel_size,
                                              IntList stride, IntList padding, IntList dilation,
                                              bool ceil_mode) {
  static_cast<void>(ceil_mode);  // is in the result's shape
  const Shape& out = b.out().shape;
  if (numel(out) == 0) return nothing(b, self);
  const IntList kernel = per_dimension(kernel_size, N);
  const IntList step = per_dimension(stride, N, kernel);
  const IntList pad = per_dimension(padding, N, IntList(N, 0));
  const IntList dilate = per_dimension(dilation, N, IntList(N, 1));
  Best best = with_positions(b, self, N);
  for (size_t i = N; i-- > 0;) {
    const auto dim = self.rank() - static_cast<int64_t>(N) + static_cast<int64_t>(i);
    best = pool_dimension(b, best, dim, {kernel[i], step[i], pad[i], dilate[i]},
                          out[static_cast<size_t>(dim)]);
  }
  return finished(b, best);
}

template <size_t N>
std::pair<Value, Value> adaptive_max_pool(Lowering& b, Value self, IntList output_size) {
  if (numel(b.out().shape) == 0) return nothing(b, self);
  const IntList size = per_dimension(output_size, N);
  Best best = with_positions(b, self, N);
  for (size_t i = N; i-- > 0;) {
    const auto dim = self.rank() - static_cast<int64_t>(N) + static_cast<int64_t>(i);
    std::vector<IntList> rows;
    for (int64_t o = 0; o < size[i]; ++o) {
      IntList row;
      for (int64_t at = adaptive_start(o, self.dim(dim), size[i]);
           at < adaptive_end(o, self.dim(dim), size[i]); ++at) {
        row.push_back(at);
      }
      rows.push_back(std::move(row));
    }
    best = pool_gathered(b, best, dim, rows);
  }
  return finished(b, best);
}

// Where the `out` windows of each plane start along one dimension of size `in`, from one sample per
// plane: [planes, out], int32 (Graham, "Fractional max-pooling", the pseudorandom sequence).
Value fractional_starts(Lowering& b, Value sample, int64_t in, int64_t out, int64_t kernel) {
  const int64_t planes = sample.dim(0);
  const Shape shape = {planes, out};
  Value last = b.constant_int(DType::kS32, in - kernel, shape);
  if (out == 1) return last;
  const DType type = sample.dtype();
  Value u = b.broadcast_in_dim(sample, shape, IntList{0});
  Value alpha = b.bdiv(b.full({type, shape}, static_cast<double>(in - kernel)),
                       b.scalar(type, Scalar::of(static_cast<double>(out - 1))));
  Value i = b.iota({type, shape}, 1);
  Value start = b.subtract(b.convert(b.multiply(b.add(i, u), alpha), DType::kS32),
                           b.convert(b.multiply(u, alpha), DType::kS32));
  Value is_last = b.compare(b.iota({DType::kS32, shape}, 1),
                            b.constant_int(DType::kS32, out - 1, shape), Compare::kEq);
  return b.select(is_last, last, start);
}

// random_samples [n, c, N]: in 2-d the width's sample comes first, in 3-d the depth's.
template <size_t N>
std::pair<Value, Value> fractional_max_pool(Lowering& b, Value self, IntList kernel_size,
                                            IntList output_size, Value random_samples) {
  if (numel(b.out().shape) == 0) return nothing(b, self);
  const IntList kernel = per_dimension(kernel_size, N);
  const IntList size = per_dimension(output_size, N);
  const Shape plane(self.shape().end() - N, self.shape().end());
  const int64_t planes = self.numel() / numel(plane);
  Value samples = b.reshape(random_samples, {planes, static_cast<int64_t>(N)});
  // Flat positions [planes, out..., kernel...], as a sum of one term per dimension.
  Shape grid = {planes};
  grid.insert(grid.end(), size.begin(), size.end());
  grid.insert(grid.end(), kernel.begin(), kernel.end());
  Value position = b.constant_int(DType::kS32, 0, grid);
  int64_t step = 1;
  for (size_t i = N; i-- > 0;) {
    const auto which = static_cast<int64_t>(N == 2 ? N - 1 - i : i);
    Value sample = b.reshape(b.slice_dim(samples, 1, which, which + 1), {planes});
    Value start = fractional_starts(b, sample, plane[i], size[i], kernel[i]);
    const auto d = static_cast<int64_t>(i);
    Value at = b.add(b.broadcast_in_dim(start, grid, IntList{0, 1 + d}),
                     b.iota({DType::kS32, grid}, 1 + static_cast<int64_t>(N) + d));
    position = b.add(position, b.multiply(at, b.constant_int(DType::kS32, step, grid)));
    step *= plane[i];
  }
  const DType wide = index_type(self.numel());
  Value offset = b.multiply(b.iota({wide, grid}, 0), b.constant_int(wide, numel(plane), grid));
  stablehlo::GatherDims dims;
  dims.collapsed_slice_dims = dims.start_index_map = {0};
  dims.index_vector_dim = static_cast<int64_t>(grid.size());
  dims.slice_sizes = {1};
  Value windows = b.gather(b.flatten(self), b.add(b.convert(position, wide), offset), dims);
  IntList taps;
  for (size_t i = 0; i < N; ++i) taps.push_back(static_cast<int64_t>(1 + N + i));
  const Best best = reduce_best(b, {windows, position}, taps);
  return {b.reshape(best.value, b.out().shape),
          b.reshape(b.convert(best.index, DType::kS64), b.out().shape)};
}

// Adjoints: each gradient goes to the element its maximum came from.

template <int64_t N>
Value max_pool_backward(Lowering& b, Value grad, Value self, IntList, IntList, IntList, IntList,
                        bool, Value indices) {
  return add_at(b, grad, indices, self.shape(), N);
}

template <int64_t N>
Value adaptive_max_pool_backward(Lowering& b, Value grad, Value self, Value indices) {
  return add_at(b, grad, indices, self.shape(), N);
}

template <int64_t N>
Value fractional_max_pool_backward(Lowering& b, Value grad, Value self, IntList, IntList,
                                   Value indices) {
  return add_at(b, grad, indices, self.shape(), N);
}

template <int64_t N>
Value max_unpool(Lowering& b, Value self, Value indices, IntList output_size) {
  Shape shape(self.shape().begin(), self.shape().end() - N);
  shape.insert(shape.end(), output_size.begin(), output_size.end());
  return store_at(b, self, indices, shape, N);
}

}  // namespace

void register_max_pooling(OperatorTable& table) {
  table.add("max_pool2d_with_indices", max_pool_with_indices<2>);
  table.add("max_pool3d_with_indices", max_pool_with_indices<3>);
  table.add("adaptive_max_pool2d", adaptive_max_pool<2>);
  table.add("adaptive_max_pool3d", adaptive_max_pool<3>);
  table.add("fractional_max_pool2d", fractional_max_pool<2>);
  table.add("fractional_max_pool3d", fractional_max_pool<3>);
  const RuleOptions sums{.opmath = true};
  table.add("max_pool2d_with_indices_backward", max_pool_backward<2>, sums);
  table.add("max_pool3d_with_indices_backward", max_pool_backward<3>, sums);
  table.add("adaptive_max_pool2d_backward", adaptive_max_pool_backward<2>, sums);
  table.add("adaptive_max_pool3d_backward", adaptive_max_pool_backward<3>, sums);
  table.add("fractional_max_pool2d_backward", fractional_max_pool_backward<2>, sums);
  table.add("fractional_max_pool3d_backward", fractional_max_pool_backward<3>, sums);
  table.add("max_unpool2d", max_unpool<2>);
  table.add("max_unpool3d", max_unpool<3>);
}

}  // namespace torch_tpu::lowering
