#include <optional>
#include <vector>

#include "lowering/extremum.h"
#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"
#include "lowering/search.h"

namespace torch_tpu::lowering {

namespace {

struct Range {
  Value low, high;  // scalars
};

Range of_data(Lowering& b, Value x) {
  const IntList dims = Lowering::all_dims(x.rank());
  if (x.numel() == 0) return {b.constant(x.dtype(), 0), b.constant(x.dtype(), 1)};
  return {b.reduce_min(x, dims), b.reduce_max(x, dims)};
}

// A range of no width is widened on both sides.
Range widened(Lowering& b, Range r, double by) {
  Value same = b.compare(r.low, r.high, Compare::kEq);
  Value margin = b.full_like(r.low, by);
  return {b.select(same, b.subtract(r.low, margin), r.low),
          b.select(same, b.add(r.high, margin), r.high)};
}

// Equal bounds ask for the range of the data. As on the CPU, every step is rounded to the type of
// the data: no opmath, and barriers, since XLA's CPU compiler keeps a float16 chain that ends in a
// scatter's indices in float32.
Value histc(Lowering& b, Value x, int64_t bins, Operand low, Operand high) {
  TT_CHECK(bins > 0, kInvalidArgument, "torch.histc(): bins must be > 0");
  const DType result = b.out().dtype;
  x = b.flatten(x);
  Range given{b.number(low, x.dtype()), b.number(high, x.dtype())};
  Range data = of_data(b, x);
  Value same = b.compare(given.low, given.high, Compare::kEq);
  Range r =
      widened(b, {b.select(same, data.low, given.low), b.select(same, data.high, given.high)}, 1.0);
  Value left = b.broadcast(r.low, x.shape());
  Value right = b.broadcast(r.high, x.shape());
  Value scaled = b.multiply(b.subtract(x, left), b.full_like(x, static_cast<double>(bins)));
  Value place = b.divide(b.optimization_barrier(scaled), b.subtract(right, left));
  place = b.convert(b.optimization_barrier(place), DType::kS64);
  place = b.minimum(place, b.full_like(place, static_cast<double>(bins - 1)));
  Value inside = b.and_(b.compare(x, left, Compare::kGe), b.compare(x, right, Compare::kLe));
  place = b.select(inside, place, b.full_like(place, static_cast<double>(bins)));
  return scatter_flat(b, b.constant(result, 0, {bins}), place, b.constant(result, 1, x.shape()),
                      Combiner::kAdd);
}

Value even_edges(Lowering& b, const Range& r, int64_t bins) {
  const TensorType type{r.low.dtype(), {bins + 1}};
  Value step = b.bdiv(b.subtract(r.high, r.low), b.full_like(r.low, static_cast<double>(bins)));
  Value i = b.iota(type, 0);
  Value up = b.badd(r.low, b.bmul(step, i));
  Value down =
      b.bsub(r.high, b.bmul(step, b.subtract(b.full_like(i, static_cast<double>(bins)), i)));
  return b.select(b.compare(i, b.full_like(i, static_cast<double>((bins + 1) / 2)), Compare::kLt),
                  up, down);
}

// Counts (or sums of weights) of points [n, d] in the cells that `edges` span; a bin holds its
// lower edge, the last one both.
Value count_cells(Lowering& b, Value points, const Values& edges,
                  const std::optional<Value>& weight, bool density) {
  const DType type = points.dtype();
  const int64_t n = points.dim(0);
  Shape shape;
  for (Value e : edges) shape.push_back(e.dim(0) - 1);
  const int64_t cells = numel(shape);
  Value place = b.constant_int(DType::kS64, 0, {n});
  Value inside = b.constant_int(DType::kPred, 1, {n});
  for (size_t d = 0; d < edges.size(); ++d) {
    const auto column = static_cast<int64_t>(d);
    Value x = b.reshape(b.slice_dim(points, 1, column, column + 1), {n});
    const int64_t bins = shape[d];
    Value low = b.reshape(b.slice_dim(edges[d], 0, 0, 1), {});
    Value high = b.reshape(b.slice_dim(edges[d], 0, bins, bins + 1), {});
    inside =
        b.and_(inside, b.and_(b.bcompare(x, low, Compare::kGe), b.bcompare(x, high, Compare::kLe)));
    Value bin = b.convert(insertion_points(b, edges[d], x, true), DType::kS64);
    bin = b.minimum(b.subtract(bin, b.full_like(bin, 1)),
                    b.full_like(bin, static_cast<double>(bins - 1)));
    place = b.add(b.multiply(place, b.full_like(place, static_cast<double>(bins))), bin);
  }
  place = b.select(inside, place, b.full_like(place, static_cast<double>(cells)));
  Value ones = weight ? b.flatten(b.convert(*weight, type)) : b.constant(type, 1, {n});
  Value hist =
      b.reshape(scatter_flat(b, b.constant(type, 0, {cells}), place, ones, Combiner::kAdd), shape);
  if (!density) return hist;
  hist = b.bdiv(hist, b.sum(hist, Lowering::all_dims(hist.rank())));
  for (size_t d = 0; d < edges.size(); ++d) {
    Value width = b.subtract(b.slice_dim(edges[d], 0, 1, shape[d] + 1),
                             b.slice_dim(edges[d], 0, 0, shape[d]));
    Value spread = b.broadcast_in_dim(width, shape, IntList{static_cast<int64_t>(d)});
    hist = b.divide(hist, spread);
  }
  return hist;
}

using FloatRange = std::optional<std::vector<double>>;

Value as_points(Lowering& b, Value x) { return b.reshape(x, {x.numel(), 1}); }

Values histogram_bins(Lowering& b, Value x, int64_t bins, FloatRange range,
                      std::optional<Value> weight, bool density) {
  Range r = range ? Range{b.constant(x.dtype(), range->at(0)), b.constant(x.dtype(), range->at(1))}
                  : of_data(b, x);
  Value edges = even_edges(b, widened(b, r, 0.5), bins);
  return {count_cells(b, as_points(b, x), {edges}, weight, density), edges};
}

Values histogram_edges(Lowering& b, Value x, Value edges, std::optional<Value> weight,
                       bool density) {
  return {count_cells(b, as_points(b, x), {edges}, weight, density), edges};
}

Value as_table(Lowering& b, Value x) { return b.reshape(x, {x.numel() / x.dim(-1), x.dim(-1)}); }

Values histogramdd_bin_edges(Lowering& b, Value x, IntList bins, FloatRange range) {
  Value points = as_table(b, x);
  Values edges;
  for (size_t d = 0; d < bins.size(); ++d) {
    const auto column = static_cast<int64_t>(d);
    Range r = range ? Range{b.constant(x.dtype(), range->at(2 * d)),
                            b.constant(x.dtype(), range->at(2 * d + 1))}
                    : of_data(b, b.slice_dim(points, 1, column, column + 1));
    edges.push_back(even_edges(b, widened(b, r, 0.5), bins[d]));
  }
  return edges;
}

Value histogramdd_counts(Lowering& b, Value x, IntList bins, FloatRange range,
                         std::optional<Value> weight, bool density) {
  return count_cells(b, as_table(b, x), histogramdd_bin_edges(b, x, bins, range), weight, density);
}

Value histogramdd_tensors(Lowering& b, Value x, Values edges, std::optional<Value> weight,
                          bool density) {
  return count_cells(b, as_table(b, x), edges, weight, density);
}

}  // namespace

void register_histogram(OperatorTable& table) {
  table.add("histc", histc);
  table.add("histogram.bin_ct", histogram_bins);
  table.add("histogram.bins_tensor", histogram_edges);
  table.add("_histogramdd_bin_edges", histogramdd_bin_edges);
  table.add("_histogramdd_from_bin_cts", histogramdd_counts);
  table.add("_histogramdd_from_bin_tensors", histogramdd_tensors);
}

}  // namespace torch_tpu::lowering
