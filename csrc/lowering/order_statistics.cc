// kthvalue, median: selection by the bits of a key instead of a sort.
#include "lowering/extremum.h"
#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/loops.h"
#include "lowering/operator_table.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {

namespace {

// {value, index of its first occurrence} of the element of rank `k` (from 0, of the reduced shape)
// along `dim`, which is removed. The key of that element is built from its highest bit: a bit is
// set when fewer than k + 1 keys lie below the candidate.
Values select_rank(Lowering& b, Value x, int64_t dim, Value k) {
  Value key = sort_key(b, x);
  const int64_t dims[] = {dim};
  const Shape reduced = Lowering::reduced_shape(x.shape(), dims, false);
  const DType type = key.dtype();
  const DType counter = k.dtype();
  const int64_t bits = 8 * byte_size(type);
  Value top = b.constant_int(type, static_cast<int64_t>(uint64_t{1} << (bits - 1)));
  Value start = b.constant_int(type, 0, reduced);
  Value prefix =
      for_loop(b, bits, {start, top}, [&](Value, std::span<const Value> state) -> Values {
        Value candidate = b.or_(state[0], b.broadcast(state[1], reduced));
        Value below =
            b.compare(key, b.broadcast(b.unsqueeze(candidate, dim), key.shape()), Compare::kLt);
        Value count = b.sum(b.convert(below, counter), dims);
        Value too_low = b.compare(count, k, Compare::kLe);
        return {b.select(too_low, candidate, state[0]),
                b.shift_right_logical(state[1], b.constant_int(type, 1))};
      })[0];
  Value found = b.compare(key, b.broadcast(b.unsqueeze(prefix, dim), key.shape()), Compare::kEq);
  return {from_sort_key(b, prefix, x.dtype()), first_position(b, found, dim)};
}

Value constant_rank(Lowering& b, Value x, int64_t dim, int64_t k) {
  const int64_t dims[] = {dim};
  return b.constant_int(index_type(x.dim(dim)), k, Lowering::reduced_shape(x.shape(), dims, false));
}

Values kthvalue(Lowering& b, Value x, int64_t k, int64_t dim, Ignored) {
  const Shape shape = b.out().shape;
  Value v = at_least_1d(b, x);
  dim = Lowering::wrap_dim(dim, v.rank());
  TT_CHECK(k >= 1 && k <= v.dim(dim), kInvalidArgument,
           "kthvalue(): selected number k out of range for dimension ", dim);
  if (numel(shape) == 0)
    return {b.constant(x.dtype(), 0, shape), b.constant_int(DType::kS32, 0, shape)};
  Values r = select_rank(b, v, dim, constant_rank(b, v, dim, k - 1));
  return {b.reshape(r[0], shape), b.reshape(r[1], shape)};
}

// The lower of the two middle elements. NaN is the greatest key: with any NaN the last element is
// picked, or (ignoring NaN) the middle of the numbers.
Values median_along(Lowering& b, Value v, int64_t dim, bool ignore_nan) {
  const int64_t n = v.dim(dim);
  Value k = constant_rank(b, v, dim, (n - 1) / 2);
  if (is_float(v.dtype())) {
    const int64_t dims[] = {dim};
    Value nan = b.is_nan(v);
    if (ignore_nan) {
      Value numbers = b.sum(b.convert(b.not_(nan), k.dtype()), dims);
      Value last = b.maximum(b.subtract(numbers, b.full_like(k, 1)), b.zeros_like(k));
      k = b.divide(last, b.full_like(k, 2));
    } else {
      k = b.select(b.any(nan, dims), b.full_like(k, static_cast<double>(n - 1)), k);
    }
  }
  return select_rank(b, v, dim, k);
}

Values median_dim_of(Lowering& b, Value x, int64_t dim, bool ignore_nan) {
  const Shape shape = b.out().shape;
  Value v = at_least_1d(b, x);
  dim = Lowering::wrap_dim(dim, v.rank());
  if (v.dim(dim) == 0) {
    fail(ErrorKind::kIndex, "median(): Expected reduction dim ", dim, " to have non-zero size.");
  }
  if (numel(shape) == 0)
    return {b.constant(x.dtype(), 0, shape), b.constant_int(DType::kS32, 0, shape)};
  Values r = median_along(b, v, dim, ignore_nan);
  return {b.reshape(r[0], shape), b.reshape(r[1], shape)};
}

Value median_of(Lowering& b, Value x, bool ignore_nan) {
  if (x.numel() == 0) return is_float(x.dtype()) ? b.nan(x.dtype()) : b.min_value(x.dtype());
  return median_along(b, b.flatten(x), 0, ignore_nan)[0];
}

Values median_dim(Lowering& b, Value x, int64_t dim, Ignored) {
  return median_dim_of(b, x, dim, false);
}
Values nanmedian_dim(Lowering& b, Value x, int64_t dim, Ignored) {
  return median_dim_of(b, x, dim, true);
}
Value median(Lowering& b, Value x) { return median_of(b, x, false); }
Value nanmedian(Lowering& b, Value x) { return median_of(b, x, true); }

}  // namespace

void register_order_statistics(OperatorTable& table) {
  const RuleOptions wide = {.opmath = true};
  table.add("kthvalue", kthvalue, wide);
  table.add("median", median, wide);
  table.add("nanmedian", nanmedian, wide);
  table.add("median.dim", median_dim, wide);
  table.add("nanmedian.dim", nanmedian_dim, wide);
}

}  // namespace torch_tpu::lowering
