#include "lowering/extremum.h"

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

Value reduce_extremum(Lowering& b, Value x, std::span<const int64_t> dims, bool keepdim,
                      Combiner combiner) {
  const bool max = combiner == Combiner::kMax;
  if (is_bool(x.dtype())) return max ? b.any(x, dims, keepdim) : b.all(x, dims, keepdim);
  return max ? b.reduce_max(x, dims, keepdim) : b.reduce_min(x, dims, keepdim);
}

Value first_position(Lowering& b, Value pred, int64_t dim) {
  const int64_t n = pred.dim(dim);
  const DType type = index_type(n);
  const int64_t dims[] = {dim};
  Value at =
      b.select(pred, b.iota({type, pred.shape()}, dim), b.constant_int(type, n, pred.shape()));
  Value first = b.reduce_min(at, dims);
  return b.select(b.compare(first, b.constant_int(type, n, first.shape()), Compare::kGe),
                  b.zeros_like(first), first);
}

Values extremum(Lowering& b, Value x, int64_t dim, Combiner combiner) {
  const int64_t dims[] = {dim};
  Value best = reduce_extremum(b, x, dims, false, combiner);
  Value same = b.compare(x, b.broadcast(b.unsqueeze(best, dim), x.shape()), Compare::kEq);
  return {best, first_position(b, b.or_(same, b.is_nan(x)), dim)};
}

namespace {

Values with_dim(Lowering& b, Value x, int64_t dim, bool keepdim, Combiner combiner) {
  const Shape shape = Lowering::reduced_shape(
      x.shape(), Lowering::wrap_dims(std::span(&dim, 1), x.rank()), keepdim);
  Value v = at_least_1d(b, x);
  Values r = extremum(b, v, Lowering::wrap_dim(dim, v.rank()), combiner);
  return {b.reshape(r[0], shape), b.reshape(r[1], shape)};
}

Values max_dim(Lowering& b, Value x, int64_t dim, bool keepdim) {
  return with_dim(b, x, dim, keepdim, Combiner::kMax);
}
Values min_dim(Lowering& b, Value x, int64_t dim, bool keepdim) {
  return with_dim(b, x, dim, keepdim, Combiner::kMin);
}

Value all_of(Lowering& b, Value x, Combiner combiner) {
  return reduce_extremum(b, x, Lowering::all_dims(x.rank()), false, combiner);
}
void check_not_empty(Value x, const char* name) {
  TT_CHECK(x.numel() > 0, kInvalidArgument, name,
           "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
           "reduction dim with the 'dim' argument.");
}
Value max_all(Lowering& b, Value x) {
  check_not_empty(x, "max");
  return all_of(b, x, Combiner::kMax);
}
Value min_all(Lowering& b, Value x) {
  check_not_empty(x, "min");
  return all_of(b, x, Combiner::kMin);
}

Value position(Lowering& b, Value x, std::optional<int64_t> dim, bool keepdim, Combiner combiner) {
  if (dim) return with_dim(b, x, *dim, keepdim, combiner)[1];
  return b.reshape(extremum(b, b.flatten(x), 0, combiner)[1], b.out().shape);
}
Value argmax(Lowering& b, Value x, std::optional<int64_t> dim, bool keepdim) {
  return position(b, x, dim, keepdim, Combiner::kMax);
}
Value argmin(Lowering& b, Value x, std::optional<int64_t> dim, bool keepdim) {
  return position(b, x, dim, keepdim, Combiner::kMin);
}

Value over(Lowering& b, Value x, const IntList& dims, bool keepdim, Combiner combiner) {
  const IntList all = Lowering::all_dims(x.rank());
  return reduce_extremum(b, x, dims.empty() ? all : dims, keepdim, combiner);
}
Value amax(Lowering& b, Value x, IntList dims, bool keepdim) {
  return over(b, x, dims, keepdim, Combiner::kMax);
}
Value amin(Lowering& b, Value x, IntList dims, bool keepdim) {
  return over(b, x, dims, keepdim, Combiner::kMin);
}

Values aminmax(Lowering& b, Value x, std::optional<int64_t> dim, bool keepdim) {
  const IntList dims = dim ? IntList{*dim} : IntList{};
  return {amin(b, x, dims, keepdim), amax(b, x, dims, keepdim)};
}
Values aminmax_all(Lowering& b, Value x) { return {min_all(b, x), max_all(b, x)}; }
Values aminmax_dim(Lowering& b, Value x, int64_t dim, bool keepdim) {
  return aminmax(b, x, dim, keepdim);
}

}  // namespace

void register_extremum(OperatorTable& table) {
  table.add("max", max_all);
  table.add("min", min_all);
  table.add("max.dim", max_dim);
  table.add("min.dim", min_dim);
  table.add("argmax", argmax);
  table.add("argmin", argmin);
  table.add("amax", amax);
  table.add("amin", amin);
  table.add("aminmax", aminmax);
  table.add("_aminmax", aminmax_all);
  table.add("_aminmax.dim", aminmax_dim);
}

}  // namespace torch_tpu::lowering
