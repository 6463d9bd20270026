#include "lowering/normalisation.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

// Input is [n, c, ...]; statistics are per channel. Formulas after Ioffe and Szegedy, "Batch
// normalization" (2015), and its gradient.

IntList other_dims(Value x) {
  IntList dims = Lowering::all_dims(x.rank());
  dims.erase(dims.begin() + 1);
  return dims;
}

double per_channel(Value x) {
  return static_cast<double>(x.numel()) / static_cast<double>(x.dim(1));
}

Value spread(Lowering& b, Value channel, Value like) {
  return b.broadcast_in_dim(channel, like.shape(), IntList{1});
}

Value of_type(Lowering& b, const std::optional<Value>& v, DType t) { return b.convert(*v, t); }

Value normalised(Lowering& b, Value x, Value mean, Value invstd, const std::optional<Value>& weight,
                 const std::optional<Value>& bias) {
  const DType t = x.dtype();
  Value scale = weight ? b.multiply(invstd, of_type(b, weight, t)) : invstd;
  Value out = b.multiply(b.subtract(x, spread(b, mean, x)), spread(b, scale, x));
  return bias ? b.add(out, spread(b, of_type(b, bias, t), x)) : out;
}

// momentum * now + (1 - momentum) * before
Value running(Lowering& b, Value before, Value now, const Operand& momentum) {
  before = b.convert(before, now.dtype());
  Value m = b.number_like(momentum, now);
  return b.add(b.multiply(m, now), b.multiply(b.subtract(b.full_like(m, 1), m), before));
}

Value unbiased(Lowering& b, Value variance, double n) {
  return b.bdiv(b.mul_scalar(variance, n), b.scalar(variance.dtype(), Scalar::of(n - 1)));
}

struct BatchNorm {
  Value out, save_mean, save_invstd;
  std::optional<Value> running_mean, running_var;  // where they change
};

Value saved_nothing(Lowering& b, size_t i) { return b.constant(b.out(i).dtype, 0, b.out(i).shape); }

// Outside of training nobody reads what is saved; its size, empty or per channel, is the caller's.
Value saved(Lowering& b, size_t i, Value used) {
  return b.out(i).shape == used.shape() ? used : saved_nothing(b, i);
}

BatchNorm batch_norm(Lowering& b, Value x, const std::optional<Value>& weight,
                     const std::optional<Value>& bias, const std::optional<Value>& running_mean,
                     const std::optional<Value>& running_var, bool training,
                     const Operand& momentum, double eps) {
  BatchNorm r;
  if (!training) {
    TT_CHECK(running_mean && running_var, kInvalidArgument,
             "Expected running_mean and running_var to be defined when training=False");
    Value invstd = inverse_std(b, of_type(b, running_var, x.dtype()), eps);
    Value mean = of_type(b, running_mean, x.dtype());
    r.out = normalised(b, x, mean, invstd, weight, bias);
    r.save_mean = saved(b, 1, mean);
    r.save_invstd = saved(b, 2, invstd);
    return r;
  }
  const Moments m = moments(b, x, other_dims(x), false);
  r.save_mean = m.mean;
  r.save_invstd = inverse_std(b, m.variance, eps);
  r.out = normalised(b, x, m.mean, r.save_invstd, weight, bias);
  if (running_mean) r.running_mean = running(b, *running_mean, m.mean, momentum);
  if (running_var)
    r.running_var = running(b, *running_var, unbiased(b, m.variance, per_channel(x)), momentum);
  return r;
}

Results native_batch_norm(Lowering& b, Value x, std::optional<Value> weight,
                          std::optional<Value> bias, std::optional<Value> running_mean,
                          std::optional<Value> running_var, bool training, Operand momentum,
                          double eps) {
  const BatchNorm r =
      batch_norm(b, x, weight, bias, running_mean, running_var, training, momentum, eps);
  return {r.out, r.save_mean, r.save_invstd, r.running_mean, r.running_var};
}

// The functional form always returns statistics.
Results native_batch_norm_functional(Lowering& b, Value x, std::optional<Value> weight,
                                     std::optional<Value> bias, Value running_mean,
                                     Value running_var, bool training, Operand momentum,
                                     double eps) {
  const BatchNorm r =
      batch_norm(b, x, weight, bias, running_mean, running_var, training, momentum, eps);
  return {r.out, r.save_mean, r.save_invstd, r.running_mean.value_or(running_mean),
          r.running_var.value_or(running_var)};
}

Results native_batch_norm_no_stats(Lowering& b, Value x, std::optional<Value> weight,
                                   std::optional<Value> bias, bool training, Operand momentum,
                                   double eps) {
  const BatchNorm r = batch_norm(b, x, weight, bias, {}, {}, training, momentum, eps);
  return {r.out, r.save_mean, r.save_invstd};
}

Results native_batch_norm_no_training(Lowering& b, Value x, std::optional<Value> weight,
                                      std::optional<Value> bias, Value running_mean,
                                      Value running_var, Operand momentum, double eps) {
  const BatchNorm r =
      batch_norm(b, x, weight, bias, running_mean, running_var, false, momentum, eps);
  return {r.out, r.save_mean, r.save_invstd};
}

// The fourth result, cuDNN's reserve, is empty.
Results batch_norm_with_update(Lowering& b, Value x, std::optional<Value> weight,
                               std::optional<Value> bias, Value running_mean, Value running_var,
                               Operand momentum, double eps) {
  const BatchNorm r =
      batch_norm(b, x, weight, bias, running_mean, running_var, true, momentum, eps);
  return {r.out, r.save_mean, r.save_invstd, saved_nothing(b, 3), r.running_mean, r.running_var};
}

Results batch_norm_no_update(Lowering& b, Value x, std::optional<Value> weight,
                             std::optional<Value> bias, std::optional<Value> running_mean,
                             std::optional<Value> running_var, Operand momentum, double eps) {
  const BatchNorm r =
      batch_norm(b, x, weight, bias, running_mean, running_var, false, momentum, eps);
  return {r.out, r.save_mean, r.save_invstd, saved_nothing(b, 3)};
}

Results native_batch_norm_backward(Lowering& b, Value grad, Value x, std::optional<Value> weight,
                                   std::optional<Value> running_mean,
                                   std::optional<Value> running_var, std::optional<Value> save_mean,
                                   std::optional<Value> save_invstd, bool train, double eps,
                                   IntList output_mask) {
  const DType t = x.dtype();
  const IntList dims = other_dims(x);
  Value mean = of_type(b, train ? save_mean : running_mean, t);
  Value invstd =
      train ? of_type(b, save_invstd, t) : inverse_std(b, of_type(b, running_var, t), eps);
  Value deviation = b.subtract(x, spread(b, mean, x));
  Value sum = b.sum(grad, dims);
  Value dot = b.sum(b.multiply(grad, deviation), dims);
  Results out(3);
  if (output_mask[0] != 0) {
    Value centred = grad;
    if (train) {
      Value n = b.scalar(t, Scalar::of(per_channel(x)));
      Value slope = b.bdiv(b.multiply(dot, b.multiply(invstd, invstd)), n);
      centred = b.subtract(grad, spread(b, b.bdiv(sum, n), x));
      centred = b.subtract(centred, b.multiply(deviation, spread(b, slope, x)));
    }
    Value scale = weight ? b.multiply(invstd, of_type(b, weight, t)) : invstd;
    out[0] = b.multiply(centred, spread(b, scale, x));
  }
  if (output_mask[1] != 0) out[1] = b.multiply(dot, invstd);
  if (output_mask[2] != 0) out[2] = sum;
  return out;
}

Results batch_norm_backward(Lowering& b, Value grad, Value x, Value weight,
                            std::optional<Value> running_mean, std::optional<Value> running_var,
                            std::optional<Value> save_mean, std::optional<Value> save_var,
                            bool update, double eps, IntList output_mask) {
  return native_batch_norm_backward(b, grad, x, weight, running_mean, running_var, save_mean,
                                    save_var, update, eps, std::move(output_mask));
}

Results batch_norm_update_stats(Lowering& b, Value x, std::optional<Value> running_mean,
                                std::optional<Value> running_var, Operand momentum) {
  const Moments m = moments(b, x, other_dims(x), false);
  Results out = {m.mean, m.variance, std::nullopt, std::nullopt};
  if (running_mean) out[2] = running(b, *running_mean, m.mean, momentum);
  if (running_var)
    out[3] = running(b, *running_var, unbiased(b, m.variance, per_channel(x)), momentum);
  return out;
}

// --- batch norm over several processes (SyncBatchNorm)

std::pair<Value, Value> batch_norm_stats(Lowering& b, Value x, double eps) {
  const Moments m = moments(b, x, other_dims(x), false);
  return {m.mean, inverse_std(b, m.variance, eps)};
}

Value batch_norm_elemt(Lowering& b, Value x, std::optional<Value> weight, std::optional<Value> bias,
                       Value mean, Value invstd) {
  return normalised(b, x, b.convert(mean, x.dtype()), b.convert(invstd, x.dtype()), weight, bias);
}

// mean, invstd [processes, c], counts [processes]: the statistics of the union (Chan et al., 1979).
Results gather_stats(Lowering& b, Value mean, Value invstd,
                     const std::optional<Value>& running_mean,
                     const std::optional<Value>& running_var, const Operand& momentum, double eps,
                     Value counts) {
  const DType t = mean.dtype();
  Value n = b.broadcast_in_dim(b.convert(counts, t), mean.shape(), IntList{0});
  const IntList dims = {0};
  Value total = b.sum(n, dims);
  Value all_mean = b.divide(b.sum(b.multiply(mean, n), dims), total);
  Value variance = b.subtract(b.divide(b.full_like(invstd, 1), b.multiply(invstd, invstd)),
                              b.full_like(invstd, eps));
  Value shift = b.bsub(mean, all_mean);
  Value squares = b.sum(b.multiply(b.add(variance, b.multiply(shift, shift)), n), dims);
  Results out = {all_mean, inverse_std(b, b.divide(squares, total), eps), std::nullopt,
                 std::nullopt};
  if (running_mean) out[2] = running(b, *running_mean, all_mean, momentum);
  if (running_var) {
    Value free = b.subtract(total, b.full_like(total, 1));
    out[3] = running(b, *running_var, b.divide(squares, free), momentum);
  }
  return out;
}

Results batch_norm_gather_stats_with_counts(Lowering& b, Value x, Value mean, Value invstd,
                                            std::optional<Value> running_mean,
                                            std::optional<Value> running_var, Operand momentum,
                                            double eps, Value counts) {
  static_cast<void>(x);
  return gather_stats(b, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

Results batch_norm_gather_stats(Lowering& b, Value x, Value mean, Value invstd,
                                std::optional<Value> running_mean, std::optional<Value> running_var,
                                Operand momentum, double eps, int64_t count) {
  static_cast<void>(x);
  Value counts = b.constant_int(mean.dtype(), count, {mean.dim(0)});
  return gather_stats(b, mean, invstd, running_mean, running_var, momentum, eps, counts);
}

Results batch_norm_backward_reduce(Lowering& b, Value grad, Value x, Value mean, Value invstd,
                                   std::optional<Value> weight, bool input_g, bool weight_g,
                                   bool bias_g) {
  static_cast<void>(weight);
  const IntList dims = other_dims(x);
  Value sum = b.sum(grad, dims);
  Value dot =
      b.sum(b.multiply(grad, b.subtract(x, spread(b, b.convert(mean, x.dtype()), x))), dims);
  Results out(4);
  if (input_g) {
    out[0] = sum;
    out[1] = dot;
  }
  if (weight_g) out[2] = b.multiply(dot, b.convert(invstd, x.dtype()));
  if (bias_g) out[3] = sum;
  return out;
}

Value batch_norm_backward_elemt(Lowering& b, Value grad, Value x, Value mean, Value invstd,
                                std::optional<Value> weight, Value sum_dy, Value sum_dy_xmu,
                                Value count) {
  const DType t = x.dtype();
  invstd = b.convert(invstd, t);
  Value n =
      b.broadcast(b.sum(b.convert(count, t), Lowering::all_dims(count.rank())), invstd.shape());
  Value slope = b.divide(b.multiply(b.convert(sum_dy_xmu, t), b.multiply(invstd, invstd)), n);
  Value centred = b.subtract(grad, spread(b, b.divide(b.convert(sum_dy, t), n), x));
  Value deviation = b.subtract(x, spread(b, b.convert(mean, t), x));
  centred = b.subtract(centred, b.multiply(deviation, spread(b, slope, x)));
  Value scale = weight ? b.multiply(invstd, of_type(b, weight, t)) : invstd;
  return b.multiply(centred, spread(b, scale, x));
}

}  // namespace

void register_batch_norm(OperatorTable& table) {
  const RuleOptions options{.opmath = true};
  table.add("native_batch_norm", native_batch_norm, options);
  table.add("_native_batch_norm_legit", native_batch_norm, options);
  table.add("_native_batch_norm_legit_functional", native_batch_norm_functional, options);
  table.add("_native_batch_norm_legit.no_stats", native_batch_norm_no_stats, options);
  table.add("_native_batch_norm_legit_no_training", native_batch_norm_no_training, options);
  table.add("_batch_norm_with_update", batch_norm_with_update, options);
  table.add("_batch_norm_with_update_functional", batch_norm_with_update, options);
  table.add("_batch_norm_no_update", batch_norm_no_update, options);
  table.add("native_batch_norm_backward", native_batch_norm_backward, options);
  table.add("batch_norm_backward", batch_norm_backward, options);
  table.add("batch_norm_update_stats", batch_norm_update_stats, options);
  table.add("batch_norm_stats", batch_norm_stats, options);
  table.add("batch_norm_elemt", batch_norm_elemt, options);
  table.add("batch_norm_gather_stats", batch_norm_gather_stats, options);
  table.add("batch_norm_gather_stats_with_counts", batch_norm_gather_stats_with_counts, options);
  table.add("batch_norm_backward_reduce", batch_norm_backward_reduce, options);
  table.add("batch_norm_backward_elemt", batch_norm_backward_elemt, options);
}

}  // namespace torch_tpu::lowering
