#include <cmath>
#include <limits>

#include "lowering/extremum.h"
#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

// The p-norm over the last dimension.
Value length(Lowering& b, Value difference, double p) {
  const int64_t last[] = {difference.rank() - 1};
  Value size = b.abs(difference);
  if (p == 0.0)
    return b.sum(b.convert(b.compare(size, b.zeros_like(size), Compare::kNe), size.dtype()), last);
  if (p == 1.0) return b.sum(size, last);
  if (p == 2.0) return b.sqrt(b.sum(b.multiply(size, size), last));
  if (std::isinf(p)) return size.dim(-1) == 0 ? b.sum(size, last) : b.reduce_max(size, last);
  Value total = b.sum(b.power(size, b.full_like(size, p)), last);
  return b.power(total, b.full_like(total, 1.0 / p));
}

// d length / d difference for every component, times grad; grad and distance lack the last
// dimension. Zero where the distance is: the subgradient PyTorch picks.
Value length_gradient(Lowering& b, Value difference, Value distance, Value grad, double p) {
  const Shape& shape = difference.shape();
  Value far = b.broadcast(b.unsqueeze(distance, distance.rank()), shape);
  Value g = b.broadcast(b.unsqueeze(grad, grad.rank()), shape);
  Value zero = b.zeros_like(difference);
  Value sign = b.sign(difference);
  if (p == 0.0) return zero;
  if (p == 1.0) return b.multiply(g, sign);
  Value apart = b.compare(far, zero, Compare::kNe);
  if (std::isinf(p)) {
    Value reached = b.compare(b.abs(difference), far, Compare::kEq);
    return b.select(b.and_(reached, apart), b.multiply(g, sign), zero);
  }
  if (p == 2.0) return b.select(apart, b.divide(b.multiply(g, difference), far), zero);
  Value power = b.power(b.abs(difference), b.full_like(difference, p - 1));
  Value scale = b.divide(g, b.power(far, b.full_like(far, p - 1)));
  Value slope = b.multiply(b.multiply(sign, power), scale);
  if (p < 1.0) apart = b.and_(apart, b.compare(difference, zero, Compare::kNe));
  return b.select(apart, slope, zero);
}

// x1[..., P, 1, M] - x2[..., 1, R, M]
Value pairwise_difference(Lowering& b, Value x1, Value x2) {
  return b.bsub(b.unsqueeze(x1, x1.rank() - 1), b.unsqueeze(x2, x2.rank() - 2));
}

Value cdist_forward(Lowering& b, Value x1, Value x2, double p, Ignored) {
  return length(b, pairwise_difference(b, x1, x2), p);
}

Value cdist_backward(Lowering& b, Value grad, Value x1, Value x2, double p, Value distance) {
  Value difference = pairwise_difference(b, x1, x2);
  Shape pairs(difference.shape().begin(), difference.shape().end() - 1);
  Value slopes =
      length_gradient(b, difference, b.broadcast(distance, pairs), b.broadcast(grad, pairs), p);
  const int64_t others[] = {slopes.rank() - 2};
  return b.sum_to(b.sum(slopes, others), b.out().shape);
}

// Rows i < j of every pair k, in order: the row from the root of a quadratic (as ATen's pdist).
struct Pairs {
  Value first, second;
};

Pairs pair_rows(Lowering& b, int64_t n) {
  const int64_t pairs = n * (n - 1) / 2;
  Value k = b.iota({DType::kF64, {pairs}}, 0);
  const double half = static_cast<double>(n) - 0.5;
  Value root = b.sqrt(b.subtract(b.full_like(k, half * half - 1.0), b.mul_scalar(k, 2.0)));
  Value i = b.convert(b.floor(b.subtract(b.full_like(k, half), root)), DType::kS64);
  Value ki = b.iota({DType::kS64, {pairs}}, 0);
  Value one = b.full_like(i, 1);
  Value skipped = b.divide(b.multiply(i, b.add(i, one)), b.full_like(i, 2));
  Value j =
      b.add(b.add(b.subtract(ki, b.mul_scalar(i, static_cast<double>(n))), skipped), b.add(i, one));
  return {readable_index(b, i, n), readable_index(b, j, n)};
}

Value pdist_forward(Lowering& b, Value x, double p) {
  const int64_t n = x.dim(0);
  if (n <= 1) return b.constant(x.dtype(), 0, {0});
  Pairs rows = pair_rows(b, n);
  return length(b, b.subtract(take_slices(b, x, 0, rows.first), take_slices(b, x, 0, rows.second)),
                p);
}

Value pdist_backward(Lowering& b, Value grad, Value x, double p, Value distance) {
  const int64_t n = x.dim(0);
  if (n <= 1 || x.numel() == 0) return b.zeros_like(x);
  Pairs rows = pair_rows(b, n);
  Value difference =
      b.subtract(take_slices(b, x, 0, rows.first), take_slices(b, x, 0, rows.second));
  Value slopes = length_gradient(b, difference, distance, grad, p);
  Value out = scatter_slices(b, b.zeros_like(x), 0, rows.first, slopes, Combiner::kAdd);
  return scatter_slices(b, out, 0, rows.second, b.negate(slopes), Combiner::kAdd);
}

Value dist(Lowering& b, Value x, Value y, Scalar p) {
  return length(b, b.flatten(b.bsub(x, y)), p.to_double());
}

}  // namespace

void register_distance(OperatorTable& table) {
  table.add("_cdist_forward", cdist_forward);
  table.add("_cdist_backward", cdist_backward);
  table.add("_pdist_forward", pdist_forward);
  table.add("_pdist_backward", pdist_backward);
  table.add("dist", dist, {.promotion = Promotion::kFloat, .opmath = true});
}

}  // namespace torch_tpu::lowering
