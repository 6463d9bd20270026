#include "lowering/samplers.h"

#include <bit>

#include "lowering/loops.h"
#include "lowering/random_numbers.h"

namespace torch_tpu::lowering {
namespace {

// Runs `step` on the state until no element's `active` (state[0], pred) is left.
Values while_any(Lowering& b, Values init,
                 const std::function<Values(std::span<const Value>)>& step) {
  const IntList dims = Lowering::all_dims(init[0].rank());
  return b.while_loop(
      init, [&](std::span<const Value> a) { return Values{b.any(a[0], dims)}; },
      [&](std::span<const Value> a) { return step(a); });
}

// Smallest k with u < cdf(k), by adding up probabilities: first = P(0), ratio(k) = P(k) / P(k - 1).
Value invert_cdf(Lowering& b, Value u, Value first, Value applies,
                 const std::function<Value(Value k)>& ratio) {
  Value zero = b.zeros_like(u);
  const Values end =
      while_any(b, {b.and_(applies, b.compare(u, first, Compare::kGe)), zero, first, first},
                [&](std::span<const Value> a) {
                  Value k = b.select(a[0], b.add_scalar(a[1], 1), a[1]);
                  Value p = b.select(a[0], b.multiply(a[2], ratio(k)), a[2]);
                  Value cdf = b.add(a[3], p);
                  // Once a term no longer adds to the sum, u is in its rounding error.
                  Value grows = b.compare(cdf, a[3], Compare::kGt);
                  Value more = b.and_(a[0], b.and_(grows, b.compare(u, cdf, Compare::kGe)));
                  return Values{more, k, p, b.select(a[0], cdf, a[3])};
                });
  return end[1];
}

Value lgamma1(Lowering& b, Value x) { return b.chlo("lgamma", b.add_scalar(x, 1)); }

DType sampling_type(Value x) { return is_integral(x.dtype()) ? DType::kF32 : opmath(x.dtype()); }

}  // namespace

// Inversion below 10; above, the transformed rejection method PTRS (Hörmann 1993).
Value poisson(Lowering& b, Value rate) {
  Value mu = b.convert(rate, sampling_type(rate));
  const TensorType type = mu.type();
  auto c = [&](double v) { return b.full(type, v); };
  Value large = b.compare(mu, c(10), Compare::kGe);

  Value small_mu = b.select(large, c(0), mu);
  Value u = RandomSource(b).uniform(type.dtype, type.shape);
  Value by_inversion =
      invert_cdf(b, u, b.exp(b.negate(small_mu)), b.compare(small_mu, c(0), Compare::kGt),
                 [&](Value k) { return b.divide(small_mu, k); });

  Value m = b.select(large, mu, c(10));
  Value log_mu = b.log(m);
  Value bb = b.add(c(0.931), b.multiply(c(2.53), b.sqrt(m)));
  Value aa = b.add(c(-0.059), b.multiply(c(0.02483), bb));
  Value inv_alpha = b.add(c(1.1239), b.divide(c(1.1328), b.subtract(bb, c(3.4))));
  Value vr = b.subtract(c(0.9277), b.divide(c(3.6224), b.subtract(bb, c(2))));
  Value by_rejection =
      sample_by_rejection(b, type, type.dtype == DType::kF64 ? 4 : 2, [&](RandomSource& source) {
        Value x = b.subtract(source.uniform(type.dtype, type.shape), c(0.5));
        Value v = source.uniform_positive(type.dtype, type.shape);
        Value us = b.subtract(c(0.5), b.abs(x));
        Value k = b.floor(
            b.add(b.add(b.multiply(b.add(b.divide(b.mul_scalar(aa, 2), us), bb), x), m), c(0.43)));
        Value quick = b.and_(b.compare(us, c(0.07), Compare::kGe), b.compare(v, vr, Compare::kLe));
        Value outside =
            b.or_(b.compare(k, c(0), Compare::kLt),
                  b.and_(b.compare(us, c(0.013), Compare::kLt), b.compare(v, us, Compare::kGt)));
        Value lhs = b.subtract(b.add(b.log(v), b.log(inv_alpha)),
                               b.log(b.add(b.divide(aa, b.multiply(us, us)), bb)));
        Value rhs =
            b.subtract(b.subtract(b.multiply(k, log_mu), m), lgamma1(b, b.maximum(k, c(0))));
        Value exact = b.and_(b.not_(outside), b.compare(lhs, rhs, Compare::kLe));
        return Proposal{k, b.or_(b.not_(large), b.or_(quick, exact))};
      });
  return b.convert(b.select(large, by_rejection, by_inversion), rate.dtype());
}

// Inversion where count * prob < 10; above, BTRS (Hörmann 1993).
Value binomial(Lowering& b, Value count, Value prob) {
  b.broadcast_pair(count, prob);
  const DType dtype = sampling_type(count);
  Value n = b.floor(b.convert(count, dtype));
  Value p = b.convert(prob, dtype);
  const TensorType type = n.type();
  auto c = [&](double v) { return b.full(type, v); };
  Value flipped = b.compare(p, c(0.5), Compare::kGt);
  Value q = b.select(flipped, b.subtract(c(1), p), p);
  Value mean = b.multiply(n, q);
  Value large = b.compare(mean, c(10), Compare::kGe);
  Value possible = b.and_(b.compare(n, c(0), Compare::kGt), b.compare(q, c(0), Compare::kGt));

  Value u = RandomSource(b).uniform(type.dtype, type.shape);
  Value odds = b.divide(q, b.subtract(c(1), q));
  Value none = b.exp(b.multiply(n, b.log1p(b.negate(q))));
  Value by_inversion = invert_cdf(b, u, none, b.and_(possible, b.not_(large)), [&](Value k) {
    return b.multiply(b.divide(b.add_scalar(b.subtract(n, k), 1), k), odds);
  });
  by_inversion = b.minimum(by_inversion, b.maximum(n, c(0)));

  Value n1 = b.select(large, n, c(100));
  Value q1 = b.select(large, q, c(0.5));
  Value rest = b.subtract(c(1), q1);
  Value stddev = b.sqrt(b.multiply(b.multiply(n1, q1), rest));
  Value bb = b.add(c(1.15), b.multiply(c(2.53), stddev));
  Value aa = b.add(b.add(c(-0.0873), b.multiply(c(0.0248), bb)), b.multiply(c(0.01), q1));
  Value cc = b.add(b.multiply(n1, q1), c(0.5));
  Value vr = b.subtract(c(0.92), b.divide(c(4.2), bb));
  Value alpha = b.multiply(b.add(c(2.83), b.divide(c(5.1), bb)), stddev);
  Value mode = b.floor(b.multiply(b.add_scalar(n1, 1), q1));
  Value log_odds = b.log(b.divide(q1, rest));
  Value at_mode = b.add(lgamma1(b, mode), lgamma1(b, b.subtract(n1, mode)));
  Value by_rejection =
      sample_by_rejection(b, type, type.dtype == DType::kF64 ? 4 : 2, [&](RandomSource& source) {
        Value x = b.subtract(source.uniform(type.dtype, type.shape), c(0.5));
        Value v = source.uniform_positive(type.dtype, type.shape);
        Value us = b.subtract(c(0.5), b.abs(x));
        Value k = b.floor(b.add(b.multiply(b.add(b.divide(b.mul_scalar(aa, 2), us), bb), x), cc));
        Value inside = b.and_(b.compare(k, c(0), Compare::kGe), b.compare(k, n1, Compare::kLe));
        Value quick = b.and_(
            inside, b.and_(b.compare(us, c(0.07), Compare::kGe), b.compare(v, vr, Compare::kLe)));
        Value safe = b.clamp(c(0), k, n1);
        Value lhs =
            b.log(b.divide(b.multiply(v, alpha), b.add(b.divide(aa, b.multiply(us, us)), bb)));
        Value rhs =
            b.add(b.subtract(at_mode, b.add(lgamma1(b, safe), lgamma1(b, b.subtract(n1, safe)))),
                  b.multiply(b.subtract(safe, mode), log_odds));
        Value exact = b.and_(inside, b.compare(lhs, rhs, Compare::kLe));
        return Proposal{k, b.or_(b.not_(large), b.or_(quick, exact))};
      });
  Value k = b.select(large, by_rejection, by_inversion);
  k = b.select(flipped, b.subtract(n, k), k);
  k = b.select(b.or_(b.is_nan(p), b.is_nan(n)), b.nan(dtype, type.shape), k);
  return b.convert(k, count.dtype());
}

// Marsaglia & Tsang 2000; a shape below 1 is drawn at alpha + 1 and scaled by u^(1 / alpha).
Value standard_gamma(Lowering& b, Value alpha) {
  Value a = b.convert(alpha, sampling_type(alpha));
  const TensorType type = a.type();
  auto c = [&](double v) { return b.full(type, v); };
  Value boosted = b.compare(a, c(1), Compare::kLt);
  Value u = RandomSource(b).uniform_positive(type.dtype, type.shape);
  Value scale = b.select(boosted, b.power(u, b.divide(c(1), a)), c(1));
  Value d = b.subtract(b.select(boosted, b.add_scalar(a, 1), a), c(1.0 / 3));
  Value k = b.divide(c(1), b.sqrt(b.mul_scalar(d, 9)));
  Value v =
      sample_by_rejection(b, type, type.dtype == DType::kF64 ? 4 : 2, [&](RandomSource& source) {
        Value x = source.normal(type.dtype, type.shape);
        Value y = b.add_scalar(b.multiply(k, x), 1);
        Value cube = b.multiply(b.multiply(y, y), y);
        Value w = source.uniform_positive(type.dtype, type.shape);
        Value half_square = b.mul_scalar(b.multiply(x, x), 0.5);
        Value bound =
            b.add(half_square,
                  b.multiply(d, b.add(b.subtract(c(1), cube), b.log(b.maximum(cube, c(1e-30))))));
        Value accepted =
            b.and_(b.compare(y, c(0), Compare::kGt), b.compare(b.log(w), bound, Compare::kLt));
        return Proposal{cube, b.or_(accepted, b.is_nan(y))};
      });
  // Below the smallest normal number a sample is no longer positive.
  const double tiny = type.dtype == DType::kF64 ? 0x1p-1022 : 0x1p-126;
  return b.convert(b.maximum(b.multiply(scale, b.multiply(d, v)), c(tiny)), alpha.dtype());
}

Value sample_dirichlet(Lowering& b, Value alpha) {
  Value g = standard_gamma(b, b.convert(alpha, sampling_type(alpha)));
  if (alpha.rank() == 0) return b.full(alpha.type(), 1);
  const int64_t last[] = {-1};
  return b.convert(b.bdiv(g, b.sum(g, last, true)), alpha.dtype());
}

namespace {

// Index of the first of the running sums (last dimension) above each of the targets:
// sums [m, n], targets [m, k] -> [m, k], by bisection.
Value first_above(Lowering& b, Value sums, Value targets) {
  const int64_t m = sums.dim(0);
  const int64_t n = sums.dim(1);
  const int64_t k = targets.dim(1);
  const TensorType type{DType::kS32, {m, k}};
  const int steps = std::bit_width(static_cast<uint64_t>(n));
  stablehlo::GatherDims dims;
  dims.collapsed_slice_dims = {1};
  dims.start_index_map = {1};
  dims.operand_batching_dims = {0};
  dims.start_indices_batching_dims = {0};
  dims.index_vector_dim = 2;
  dims.slice_sizes = {1, 1};
  const Values range = for_loop(
      b, steps, {b.full(type, 0), b.constant_int(DType::kS32, n - 1, type.shape)},
      [&](Value, std::span<const Value> a) {
        Value middle = b.divide(b.add(a[0], a[1]), b.constant_int(DType::kS32, 2, type.shape));
        Value sum = b.gather(sums, b.reshape(middle, {m, k, 1}), dims);
        Value right =
            b.and_(b.compare(sum, targets, Compare::kLe), b.compare(a[0], a[1], Compare::kLt));
        return Values{
            b.select(right, b.add(middle, b.constant_int(DType::kS32, 1, type.shape)), a[0]),
            b.select(right, a[1], middle)};
      });
  return range[0];
}

}  // namespace

Value multinomial(Lowering& b, Value probs, int64_t num_samples, bool replacement) {
  TT_CHECK(probs.rank() == 1 || probs.rank() == 2, kInvalidArgument,
           "prob_dist must be 1 or 2 dim");
  TT_CHECK(num_samples > 0, kInvalidArgument, "cannot sample n_sample <= 0 samples");
  TT_CHECK(replacement || num_samples <= probs.dim(-1), kInvalidArgument,
           "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  const bool vector = probs.rank() == 1;
  const int64_t m = vector ? 1 : probs.dim(0);
  const int64_t n = probs.dim(-1);
  Value p = b.convert(b.reshape(probs, {m, n}), opmath(probs.dtype()));
  Value index;
  if (replacement && num_samples > 1) {
    stablehlo::WindowDims window;
    window.window = {1, n};
    window.pad_low = {0, n - 1};
    window.pad_high = {0, 0};
    Value sums = b.reduce_window(p, b.constant(p.dtype(), 0), window, Combiner::kAdd);
    Value total = b.slice_dim(sums, 1, n - 1, n);
    Value targets = b.bmul(RandomSource(b).uniform(p.dtype(), {m, num_samples}), total);
    // A product rounded up to the total would select an element past the last possible one.
    const int64_t last[] = {1};
    Value possible = b.compare(p, b.zeros_like(p), Compare::kGt);
    Value at = b.iota({DType::kS32, {m, n}}, 1);
    Value last_possible = b.reduce_max(b.select(possible, at, b.zeros_like(at)), last, true);
    index = b.bmin(first_above(b, sums, targets), last_possible);
  } else {
    // Exponential races: the k smallest of e_i / p_i are a sample without replacement.
    Value race = b.divide(p, RandomSource(b).exponential(p.dtype(), {m, n}));
    index = b.top_k(race, num_samples)[1];
  }
  index = b.convert(index, DType::kS64);
  return vector ? b.reshape(index, {num_samples}) : index;
}

}  // namespace torch_tpu::lowering
