#include "lowering/sort.h"

#include "lowering/extremum.h"
#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/loops.h"
#include "lowering/operator_table.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {

namespace {

// One NaN, with a clear sign, so that IEEE total order puts it last.
Value canonical_nan(Lowering& b, Value x) {
  return is_float(x.dtype()) ? b.select(b.is_nan(x), b.nan(x.dtype(), x.shape()), x) : x;
}

// In a comparator: -0 as 0.
Value canonical_zero(Lowering& b, Value x) {
  if (!is_float(x.dtype())) return x;
  Value zero = b.zeros_like(x);
  return b.select(b.compare(x, zero, Compare::kEq), zero, x);
}

Value before(Lowering& b, Value x, Value y, bool descending) {
  return b.compare(canonical_zero(b, x), canonical_zero(b, y),
                   descending ? Compare::kGt : Compare::kLt, true);
}

}  // namespace

Values stable_sort(Lowering& b, Value x, int64_t dim, bool descending) {
  if (x.numel() == 0) return {x, b.constant_int(DType::kS32, 0, x.shape())};
  const DType dtype = x.dtype();
  if (is_bool(dtype)) x = b.convert(x, DType::kU8);
  const Value operands[] = {canonical_nan(b, x), b.iota({index_type(x.dim(dim)), x.shape()}, dim)};
  Values sorted = b.sort(operands, dim, true, [&](std::span<const Value> a) -> Values {
    return {before(b, a[0], a[1], descending)};
  });
  return {b.convert(sorted[0], dtype), sorted[1]};
}

Value lexicographic_order(Lowering& b, Value x) {
  const int64_t n = x.dim(0);
  const int64_t m = x.dim(1);
  if (is_bool(x.dtype())) x = b.convert(x, DType::kU8);
  Value columns = b.transpose_last_two(canonical_nan(b, x));
  return for_loop(b, m, {positions(b, n)}, [&](Value i, std::span<const Value> state) -> Values {
    const Value last = b.subtract(b.constant_int(DType::kS32, m - 1), i);
    const Value start[] = {last, b.constant_int(DType::kS32, 0)};
    const int64_t sizes[] = {1, n};
    Value column = b.reshape(b.dynamic_slice(columns, start, sizes), {n});
    const Value operands[] = {take_flat(b, column, state[0]), state[0]};
    return {b.sort(operands, 0, true, [&](std::span<const Value> a) -> Values {
      return {before(b, a[0], a[1], false)};
    })[1]};
  })[0];
}

namespace {

DType unsigned_bits(DType dtype) {
  switch (byte_size(dtype)) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    case 4:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

// 1000...0 in the key's type.
Value top_bit(Lowering& b, Value like) {
  return b.constant_int(like.dtype(),
                        static_cast<int64_t>(uint64_t{1} << (8 * byte_size(like.dtype()) - 1)),
                        like.shape());
}

}  // namespace

Value sort_key(Lowering& b, Value x) {
  if (is_bool(x.dtype())) return b.convert(x, DType::kU8);
  if (is_unsigned_int(x.dtype())) return x;
  Value bits = b.bitcast_convert(canonical_nan(b, x), unsigned_bits(x.dtype()));
  Value top = top_bit(b, bits);
  if (is_int(x.dtype())) return b.xor_(bits, top);
  Value negative = b.compare(b.and_(bits, top), b.zeros_like(bits), Compare::kNe);
  return b.select(negative, b.not_(bits), b.or_(bits, top));
}

Value from_sort_key(Lowering& b, Value key, DType dtype) {
  if (is_bool(dtype)) return b.convert(key, DType::kPred);
  if (is_unsigned_int(dtype)) return key;
  Value top = top_bit(b, key);
  if (is_int(dtype)) return b.bitcast_convert(b.xor_(key, top), dtype);
  Value positive = b.compare(b.and_(key, top), b.zeros_like(key), Compare::kNe);
  return b.bitcast_convert(b.select(positive, b.xor_(key, top), b.not_(key)), dtype);
}

namespace {

Values sort_stable(Lowering& b, Value x, Ignored, int64_t dim, bool descending) {
  Value v = at_least_1d(b, x);
  Values r = stable_sort(b, v, Lowering::wrap_dim(dim, v.rank()), descending);
  return {b.reshape(r[0], x.shape()), b.reshape(r[1], x.shape())};
}

Values sort(Lowering& b, Value x, int64_t dim, bool descending) {
  return sort_stable(b, x, {}, dim, descending);
}

Value argsort_stable(Lowering& b, Value x, Ignored, int64_t dim, bool descending) {
  return sort_stable(b, x, {}, dim, descending)[1];
}

Values topk(Lowering& b, Value x, int64_t k, int64_t dim, bool largest, Ignored) {
  const Shape shape = b.out().shape;
  Value v = at_least_1d(b, x);
  dim = Lowering::wrap_dim(dim, v.rank());
  TT_CHECK(k >= 0 && k <= v.dim(dim), kInvalidArgument, "selected index k out of range");
  if (numel(shape) == 0)
    return {b.constant(x.dtype(), 0, shape), b.constant_int(DType::kS32, 0, shape)};
  const DType dtype = v.dtype();
  if (is_bool(dtype)) v = b.convert(v, DType::kU8);
  v = b.move_dim(canonical_nan(b, v), dim, -1);
  // The smallest are the largest of the opposite; the opposite of NaN has its sign set and comes
  // last.
  auto opposite = [&](Value y) { return is_float(y.dtype()) ? b.negate(y) : b.not_(y); };
  if (!largest) v = opposite(v);
  Values r = b.top_k(v, k);
  if (!largest) r[0] = opposite(r[0]);
  Value values = b.move_dim(b.convert(r[0], dtype), -1, dim);
  return {b.reshape(values, shape), b.reshape(b.move_dim(r[1], -1, dim), shape)};
}

// The most frequent value along dim (the smallest of equally frequent ones) and its last position.
Values mode(Lowering& b, Value x, int64_t dim, bool keepdim) {
  const Shape shape = b.out().shape;
  Value v = at_least_1d(b, x);
  dim = Lowering::wrap_dim(dim, v.rank());
  const int64_t n = v.dim(dim);
  if (numel(shape) == 0 || n == 0)
    return {b.constant(x.dtype(), 0, shape), b.constant_int(DType::kS32, 0, shape)};
  static_cast<void>(keepdim);
  Values sorted = stable_sort(b, v, dim, false);
  Value at = b.iota({index_type(n), v.shape()}, dim);
  Value differs = b.compare(b.slice_dim(sorted[0], dim, 1, n),
                            b.slice_dim(sorted[0], dim, 0, n - 1), Compare::kNe);
  Shape low(static_cast<size_t>(v.rank()), 0);
  Shape high = low;
  low[static_cast<size_t>(dim)] = 1;
  Value starts = b.pad(differs, b.constant_int(DType::kPred, 1), low, high);
  Value run_start = inclusive_scan(b, b.select(starts, at, b.zeros_like(at)), dim, Combiner::kMax);
  Value longest = extremum(b, b.subtract(at, run_start), dim, Combiner::kMax)[1];
  Value pick = b.unsqueeze(longest, dim);
  Value index = take_elements(b, sorted[1], dim, pick);
  return {b.reshape(take_elements(b, sorted[0], dim, pick), shape), b.reshape(index, shape)};
}

}  // namespace

void register_sort(OperatorTable& table) {
  register_order_statistics(table);
  register_search(table);
  table.add("sort", sort, {.opmath = true});
  table.add("sort.stable", sort_stable, {.opmath = true});
  table.add("argsort.stable", argsort_stable, {.opmath = true});
  table.add("topk", topk, {.opmath = true});
  table.add("mode", mode, {.opmath = true});
}

}  // namespace torch_tpu::lowering
