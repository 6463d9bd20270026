#include "lowering/scan.h"

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/loops.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

Value identity(Lowering& b, Combiner combiner, DType dtype) {
  switch (combiner) {
    case Combiner::kMul:
      return b.constant(dtype, 1);
    case Combiner::kMax:
      return b.neg_inf(dtype);
    case Combiner::kMin:
      return b.pos_inf(dtype);
    default:
      return b.constant(dtype, 0);
  }
}

Value combine(Lowering& b, Combiner combiner, Value x, Value y) {
  switch (combiner) {
    case Combiner::kMul:
      return b.bmul(x, y);
    case Combiner::kMax:
      return b.bmax(x, y);
    case Combiner::kMin:
      return b.bmin(x, y);
    default:
      return b.badd(x, y);
  }
}

Value window_scan(Lowering& b, Value x, int64_t dim, Combiner combiner) {
  const auto rank = static_cast<size_t>(x.rank());
  const auto d = static_cast<size_t>(dim);
  stablehlo::WindowDims window;
  window.window.assign(rank, 1);
  window.pad_low.assign(rank, 0);
  window.pad_high.assign(rank, 0);
  window.window[d] = x.dim(dim);
  window.pad_low[d] = x.dim(dim) - 1;
  return b.reduce_window(x, identity(b, combiner, x.dtype()), window, combiner);
}

// One window per element costs n^2: blocks are scanned, then shifted by the scan of their totals.
constexpr int64_t kBlock = 128;

}  // namespace

Value inclusive_scan(Lowering& b, Value x, int64_t dim, Combiner combiner) {
  const int64_t n = x.dim(dim);
  if (n <= 1 || x.numel() == 0) return x;
  if (n <= kBlock) return window_scan(b, x, dim, combiner);
  const auto rank = static_cast<size_t>(x.rank());
  const auto d = static_cast<size_t>(dim);
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  Shape low(rank, 0);
  Shape high(rank, 0);
  high[d] = blocks * kBlock - n;
  Value padded = b.pad(x, identity(b, combiner, x.dtype()), low, high);
  Shape split = x.shape();
  split[d] = kBlock;
  split.insert(split.begin() + dim, blocks);
  Value within = window_scan(b, b.reshape(padded, split), dim + 1, combiner);
  Value totals = b.squeeze_dim(b.slice_dim(within, dim + 1, kBlock - 1, kBlock), dim + 1);
  Value before = inclusive_scan(b, totals, dim, combiner);
  high[d] = -1;
  low[d] = 1;
  before = b.pad(before, identity(b, combiner, x.dtype()), low, high);
  Value shifted = combine(b, combiner, b.unsqueeze(before, dim + 1), within);
  return b.slice_dim(b.reshape(shifted, padded.shape()), dim, 0, n);
}

Value count_up_to(Lowering& b, Value mask) {
  return inclusive_scan(b, b.convert(mask, index_type(mask.numel())), 0, Combiner::kAdd);
}

namespace {

Value cumulative(Lowering& b, Value x, int64_t dim, Combiner combiner) {
  const DType result = b.out().dtype;
  if (is_bool(result)) combiner = combiner == Combiner::kMul ? Combiner::kMin : Combiner::kMax;
  x = b.convert(b.convert(x, result), is_bool(result) ? DType::kS32 : opmath(result));
  if (x.rank() == 0) return x;
  return inclusive_scan(b, x, Lowering::wrap_dim(dim, x.rank()), combiner);
}

Value cumsum(Lowering& b, Value x, int64_t dim, std::optional<DType>) {
  return cumulative(b, x, dim, Combiner::kAdd);
}

Value cumprod(Lowering& b, Value x, int64_t dim, std::optional<DType>) {
  return cumulative(b, x, dim, Combiner::kMul);
}

// Indices follow ATen's cummax_helper: an equal element or a NaN moves the index on.
Values cumulative_extremum(Lowering& b, Value x, int64_t dim, Combiner combiner) {
  const bool pred = is_bool(x.dtype());
  Value v = pred ? b.convert(x, DType::kS32) : x;
  const Shape shape = v.shape();
  v = at_least_1d(b, v);
  dim = Lowering::wrap_dim(dim, v.rank());
  Value running = inclusive_scan(b, v, dim, combiner);
  const DType type = index_type(v.dim(dim));
  Value moves = b.or_(b.compare(v, running, Compare::kEq), b.is_nan(v));
  Value at = b.select(moves, b.iota({type, v.shape()}, dim), b.constant_int(type, 0, v.shape()));
  Value index = inclusive_scan(b, at, dim, Combiner::kMax);
  return {b.reshape(pred ? b.convert(running, DType::kPred) : running, shape),
          b.reshape(index, shape)};
}

Values cummax(Lowering& b, Value x, int64_t dim) {
  return cumulative_extremum(b, x, dim, Combiner::kMax);
}
Values cummin(Lowering& b, Value x, int64_t dim) {
  return cumulative_extremum(b, x, dim, Combiner::kMin);
}

// log(exp(x) + exp(y)) for real operands; equal infinities stand for themselves.
Value log_add_exp(Lowering& b, Value x, Value y) {
  Value high = b.maximum(x, y);
  Value low = b.minimum(x, y);
  Value infinite = b.and_(b.compare(x, y, Compare::kEq), b.logical_not(b.is_finite(x)));
  return b.select(infinite, high, b.add(high, b.log1p(b.exp(b.subtract(low, high)))));
}

Value log_add_exp_complex(Lowering& b, Value x, Value y) {
  Value x_first = b.compare(b.real(x), b.real(y), Compare::kGe);
  Value high = b.select(x_first, x, y);
  Value low = b.select(x_first, y, x);
  Value sum = b.add(high, b.log1p(b.exp(b.subtract(low, high))));
  Value both_zero =
      b.and_(b.compare(b.real(high), b.neg_inf(real_of(x.dtype()), x.shape()), Compare::kEq),
             b.compare(b.real(x), b.real(y), Compare::kEq));
  return b.select(both_zero, high, sum);
}

Value log_sum(Lowering& b, Value x, Value y) {
  return is_complex(x.dtype()) ? log_add_exp_complex(b, x, y) : log_add_exp(b, x, y);
}

Value logcumsumexp_in_order(Lowering& b, Value x, int64_t dim) {
  Shape sizes = x.shape();
  sizes[static_cast<size_t>(dim)] = 1;
  const DType part = real_of(x.dtype());
  Value nothing = b.neg_inf(part, sizes);
  if (is_complex(x.dtype())) nothing = b.complex(nothing, b.constant(part, 0, sizes));
  Values starts(static_cast<size_t>(x.rank()), b.constant_int(DType::kS32, 0));
  return for_loop(b, x.dim(dim), {x, nothing},
                  [&](Value i, std::span<const Value> state) -> Values {
                    Values at = starts;
                    at[static_cast<size_t>(dim)] = i;
                    Value sum = log_sum(b, state[1], b.dynamic_slice(x, at, sizes));
                    return {b.dynamic_update_slice(state[0], sum, at), sum};
                  })[0];
}

// The phase of a complex logarithm depends on the order of the additions, and so does the rounding
// of a real one: short scans take ATen's. Long ones double their reach in every step (Hillis and
// Steele 1986): after step k an element holds 2^k terms.
Value logcumsumexp(Lowering& b, Value x, int64_t dim) {
  if (x.rank() == 0 || x.numel() == 0) return x;
  dim = Lowering::wrap_dim(dim, x.rank());
  // ATen adds up in double: beside a large term, single precision would round each step.
  x = b.convert(x, is_complex(x.dtype()) ? DType::kC128 : DType::kF64);
  if (is_complex(x.dtype()) || x.dim(dim) <= kBlock) return logcumsumexp_in_order(b, x, dim);
  const auto rank = static_cast<size_t>(x.rank());
  const auto d = static_cast<size_t>(dim);
  for (int64_t step = 1; step < x.dim(dim); step *= 2) {
    Shape low(rank, 0);
    Shape high(rank, 0);
    low[d] = step;
    high[d] = -step;
    x = log_sum(b, b.pad(x, b.neg_inf(x.dtype()), low, high), x);
  }
  return x;
}

}  // namespace

void register_scan(OperatorTable& table) {
  table.add("cumsum", cumsum);
  table.add("cumprod", cumprod);
  table.add("cummax", cummax, {.opmath = true});
  table.add("cummin", cummin, {.opmath = true});
  table.add("logcumsumexp", logcumsumexp, {.promotion = Promotion::kFloat, .opmath = true});
  table.add("_logcumsumexp", logcumsumexp, {.promotion = Promotion::kFloat, .opmath = true});
}

}  // namespace torch_tpu::lowering
