#include "lowering/data_dependent.h"

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"
#include "lowering/scan.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {

namespace {

// Where each true element of a mask goes when they move to the front; `limit` (dropped) for the
// rest.
Value destinations(Lowering& b, Value mask, int64_t limit) {
  Value place = count_up_to(b, mask);
  Value one = b.full_like(place, 1);
  return b.select(mask, b.subtract(place, one),
                  b.constant_int(place.dtype(), limit, place.shape()));
}

Value true_count(Lowering& b, Value mask) {
  return b.sum(b.convert(mask, DType::kS64), Lowering::all_dims(mask.rank()));
}

Value scattered(Lowering& b, Value x, Value where, int64_t size) {
  return scatter_flat(b, b.constant(x.dtype(), 0, {size}), where, x, Combiner::kOverwrite, true);
}

}  // namespace

Value compacted(Lowering& b, Value x, Value mask) {
  return scattered(b, x, destinations(b, mask, x.numel()), x.numel());
}

Value nonzero_positions(Lowering& b, Value mask, int64_t size) {
  const Shape shape = mask.shape();
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t n = mask.numel();
  const DType type = index_type(std::max(n, size));
  if (n == 0 || size == 0 || rank == 0) return b.constant_int(type, 0, {size, rank});
  Value where = b.convert(destinations(b, b.flatten(mask), size), type);
  Value linear = scattered(b, b.iota({type, {n}}, 0), where, size);
  Values columns;
  int64_t stride = n;
  for (int64_t d = 0; d < rank; ++d) {
    stride /= shape[static_cast<size_t>(d)];
    Value coordinate = b.divide(linear, b.constant_int(type, stride, {size}));
    if (d > 0)
      coordinate =
          b.remainder(coordinate, b.constant_int(type, shape[static_cast<size_t>(d)], {size}));
    columns.push_back(b.reshape(coordinate, {size, 1}));
  }
  return b.concatenate(columns, 1);
}

namespace {

Values nonzero(Lowering& b, Value x) {
  Value mask = b.convert(x, DType::kPred);
  return {b.convert(nonzero_positions(b, mask, mask.numel()), DType::kS64), true_count(b, mask)};
}

Value nonzero_static(Lowering& b, Value x, int64_t size, int64_t fill_value) {
  Value mask = b.convert(x, DType::kPred);
  Value found = b.convert(nonzero_positions(b, mask, size), DType::kS64);
  if (found.numel() == 0) return found;
  Value real = b.compare(b.iota({DType::kS64, found.shape()}, 0),
                         b.broadcast(true_count(b, mask), found.shape()), Compare::kLt);
  return b.select(real, found, b.constant_int(DType::kS64, fill_value, found.shape()));
}

Values masked_select(Lowering& b, Value x, Value mask) {
  b.broadcast_pair(x, mask);
  mask = b.flatten(b.convert(mask, DType::kPred));
  return {compacted(b, b.flatten(x), mask), true_count(b, mask)};
}

// --- unique

// pred[i]: element i differs from element i - 1 (the first always does). NaN differs from NaN.
Value starts_run(Lowering& b, Value x) {
  const int64_t n = x.dim(0);
  if (n == 0) return b.constant_int(DType::kPred, 0, {0});
  Value differs = b.compare(b.slice_dim(x, 0, 1, n), b.slice_dim(x, 0, 0, n - 1), Compare::kNe);
  if (x.rank() > 1) {
    IntList rest = Lowering::all_dims(x.rank());
    rest.erase(rest.begin());
    differs = b.any(differs, rest);
  }
  const Value parts[] = {b.constant_int(DType::kPred, 1, {1}), differs};
  return b.concatenate(parts, 0);
}

struct Runs {
  Value id;      // number of the run each element belongs to
  Value counts;  // elements of each run, padded with zeros
  Value total;   // number of runs, int64 scalar
  Value starts;
};

Runs runs_of(Lowering& b, Value x) {
  Runs r;
  const int64_t n = x.dim(0);
  r.starts = starts_run(b, x);
  Value upto = count_up_to(b, r.starts);
  r.id = b.subtract(upto, b.full_like(upto, 1));
  Value ones = b.constant_int(DType::kS64, 1, {n});
  r.counts = scatter_flat(b, b.constant_int(DType::kS64, 0, {n}), r.id, ones, Combiner::kAdd);
  r.total = true_count(b, r.starts);
  return r;
}

// Rows in front where a run starts.
Value run_heads(Lowering& b, Value x, const Runs& runs) {
  Value where =
      b.select(runs.starts, runs.id, b.constant_int(runs.id.dtype(), x.dim(0), runs.id.shape()));
  return scatter_slices(b, b.zeros_like(x), 0, where, x, Combiner::kOverwrite);
}

// {unique values padded, inverse (in the shape of x), counts padded, number of unique values}
Values unique(Lowering& b, Value x) {
  Values sorted = stable_sort(b, b.flatten(x), 0, false);
  Runs runs = runs_of(b, sorted[0]);
  Value inverse = scattered(b, b.convert(runs.id, DType::kS64), sorted[1], x.numel());
  return {run_heads(b, sorted[0], runs), b.reshape(inverse, x.shape()), runs.counts, runs.total};
}

Values unique2(Lowering& b, Value x, Ignored, Ignored, Ignored) { return unique(b, x); }

// Rows along dim in front; {rows padded, inverse, counts padded, number of rows kept}
Values runs_along(Lowering& b, Value x, int64_t dim, const std::optional<Value>& order) {
  Runs runs = runs_of(b, x);
  Value inverse = b.convert(runs.id, DType::kS64);
  if (order) inverse = scattered(b, inverse, *order, x.dim(0));
  return {b.move_dim(run_heads(b, x, runs), 0, dim), inverse, runs.counts, runs.total};
}

Values unique_consecutive(Lowering& b, Value x, Ignored, Ignored, std::optional<int64_t> dim) {
  if (dim) {
    const int64_t d = Lowering::wrap_dim(*dim, x.rank());
    return runs_along(b, b.move_dim(at_least_1d(b, x), d, 0), d, {});
  }
  Values r = runs_along(b, b.flatten(x), 0, {});
  r[1] = b.reshape(r[1], x.shape());
  return r;
}

// Rows in lexicographic order: stable sorts by the columns, the last one first.
Values unique_dim(Lowering& b, Value x, int64_t dim, Ignored, Ignored, Ignored) {
  dim = Lowering::wrap_dim(dim, x.rank());
  Value rows = b.move_dim(at_least_1d(b, x), dim, 0);
  const int64_t n = rows.dim(0);
  const int64_t columns = n == 0 ? 0 : rows.numel() / n;
  Value order = positions(b, n);
  if (columns > 0 && n > 1) order = lexicographic_order(b, b.reshape(rows, {n, columns}));
  return runs_along(b, take_slices(b, rows, 0, order), dim, order);
}

// --- sizes that the caller has read: the argument that bounds the size holds it

Value repeat_interleave(Lowering& b, Value repeats, std::optional<int64_t> output_size) {
  if (!output_size) b.not_implemented("repeat_interleave without output_size");
  const int64_t size = *output_size;
  if (size == 0 || repeats.numel() == 0) return b.constant_int(repeats.dtype(), 0, {size});
  // Element i starts at the sum of the repeats before it: mark the starts, then count them.
  const DType type = index_type(size);
  Value ends = inclusive_scan(b, b.convert(repeats, type), 0, Combiner::kAdd);
  Value marks = scatter_flat(b, b.constant_int(type, 0, {size}), writable_index(b, ends, size),
                             b.full_like(ends, 1), Combiner::kAdd);
  return b.convert(inclusive_scan(b, marks, 0, Combiner::kAdd), repeats.dtype());
}

Value bincount(Lowering& b, Value x, std::optional<Value> weights, int64_t size) {
  const DType type = !weights                          ? DType::kS64
                     : weights->dtype() == DType::kF32 ? DType::kF32
                                                       : DType::kF64;
  Value none = b.constant(type, 0, {size});
  if (x.numel() == 0 || size == 0) return none;
  Value added = weights ? b.convert(*weights, type) : b.constant(type, 1, x.shape());
  return scatter_flat(b, none, writable_index(b, x, size), added, Combiner::kAdd);
}

}  // namespace

void register_data_dependent(OperatorTable& table) {
  table.add("nonzero", nonzero);
  table.add("nonzero_static", nonzero_static);
  table.add("masked_select", masked_select);
  table.add("_unique2", unique2);
  table.add("unique_consecutive", unique_consecutive);
  table.add("unique_dim", unique_dim);
  table.add("repeat_interleave.Tensor", repeat_interleave);
  table.add("bincount", bincount);
}

}  // namespace torch_tpu::lowering
