#include <algorithm>
#include <limits>

#include "lowering/normalisation.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

// The dimensions of normalized_shape: the last ones.
IntList normalised_dims(Value x, const IntList& normalized_shape) {
  IntList dims;
  for (int64_t d = x.rank() - static_cast<int64_t>(normalized_shape.size()); d < x.rank(); ++d)
    dims.push_back(d);
  return dims;
}

IntList leading_dims(Value x, const IntList& normalized_shape) {
  return Lowering::all_dims(x.rank() - static_cast<int64_t>(normalized_shape.size()));
}

Value times(Lowering& b, Value x, const std::optional<Value>& weight) {
  return weight ? b.bmul(x, b.convert(*weight, x.dtype())) : x;
}

Value plus(Lowering& b, Value x, const std::optional<Value>& bias) {
  return bias ? b.badd(x, b.convert(*bias, x.dtype())) : x;
}

// Ba, Kiros and Hinton, "Layer normalization" (2016).
// ATen's checks: there is no meta kernel to make them.
void check_normalized_shape(Value x, const IntList& normalized, const std::optional<Value>& weight,
                            const std::optional<Value>& bias) {
  const Shape shape(normalized.begin(), normalized.end());
  TT_CHECK(!shape.empty(), kInvalidArgument,
           "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one "
           "element, but got normalized_shape = []");
  for (const auto& [parameter, name] : {std::pair(&weight, "weight"), std::pair(&bias, "bias")}) {
    TT_CHECK(!*parameter || (*parameter)->shape() == shape, kInvalidArgument, "Expected ", name,
             " to be of same shape as normalized_shape, but got ", name, " of shape ",
             to_string((*parameter)->shape()), " and normalized_shape = ", to_string(shape));
  }
  const Shape& sizes = x.shape();
  TT_CHECK(sizes.size() >= shape.size() && std::equal(shape.rbegin(), shape.rend(), sizes.rbegin()),
           kInvalidArgument, "Given normalized_shape=", to_string(shape),
           ", expected input with the same last dimensions, but got input of size ",
           to_string(sizes));
}

std::tuple<Value, Value, Value> native_layer_norm(Lowering& b, Value x, IntList normalized_shape,
                                                  std::optional<Value> weight,
                                                  std::optional<Value> bias, double eps) {
  check_normalized_shape(x, normalized_shape, weight, bias);
  const Moments m = moments(b, x, normalised_dims(x, normalized_shape), true);
  Value rstd = inverse_std(b, m.variance, eps);
  Value out = b.bmul(b.bsub(x, m.mean), rstd);
  return {plus(b, times(b, out, weight), bias), m.mean, rstd};
}

// The gradient of (x - mean) * rstd in x, where `g` is that of the result and `hat` the result
// itself.
Value centred_gradient(Lowering& b, Value g, Value hat, Value rstd, const IntList& dims) {
  Value slope = b.mean(b.multiply(g, hat), dims, true);
  Value centred = b.bsub(g, b.mean(g, dims, true));
  return b.bmul(b.subtract(centred, b.bmul(hat, slope)), rstd);
}

Results native_layer_norm_backward(Lowering& b, Value grad, Value x, IntList normalized_shape,
                                   Value mean, Value rstd, std::optional<Value> weight,
                                   std::optional<Value> bias, IntList output_mask) {
  const DType t = x.dtype();
  rstd = b.convert(rstd, t);
  Value hat = b.bmul(b.bsub(x, b.convert(mean, t)), rstd);
  const IntList leading = leading_dims(x, normalized_shape);
  Results out(3);
  if (output_mask[0] != 0) {
    out[0] = centred_gradient(b, times(b, grad, weight), hat, rstd,
                              normalised_dims(x, normalized_shape));
  }
  if (output_mask[1] != 0 && weight) out[1] = b.sum(b.multiply(grad, hat), leading);
  if (output_mask[2] != 0 && bias) out[2] = b.sum(grad, leading);
  return out;
}

// Zhang and Sennrich, "Root mean square layer normalization" (2019).
std::pair<Value, Value> fused_rms_norm(Lowering& b, Value x, IntList normalized_shape,
                                       std::optional<Value> weight, std::optional<double> eps) {
  const double smallest = x.dtype() == DType::kF64
                              ? std::numeric_limits<double>::epsilon()
                              : static_cast<double>(std::numeric_limits<float>::epsilon());
  const IntList dims = normalised_dims(x, normalized_shape);
  Value rstd = inverse_std(b, b.mean(b.multiply(x, x), dims, true), eps.value_or(smallest));
  return {times(b, b.bmul(x, rstd), weight), rstd};
}

Results fused_rms_norm_backward(Lowering& b, Value grad, Value x, IntList normalized_shape,
                                Value rstd, std::optional<Value> weight, IntList output_mask) {
  rstd = b.convert(rstd, x.dtype());
  Value hat = b.bmul(x, rstd);
  Results out(2);
  if (output_mask[0] != 0) {
    Value g = times(b, grad, weight);
    Value slope = b.mean(b.multiply(g, hat), normalised_dims(x, normalized_shape), true);
    out[0] = b.bmul(b.subtract(g, b.bmul(hat, slope)), rstd);
  }
  if (output_mask[1] != 0 && weight)
    out[1] = b.sum(b.multiply(grad, hat), leading_dims(x, normalized_shape));
  return out;
}

// Channels of a group and everything behind them form one row: [n, group, c / group * hxw].
Value rows(Lowering& b, Value x, int64_t n, int64_t c, int64_t hxw, int64_t group) {
  return b.reshape(x, {n, group, c / group * hxw});
}

// A per-channel vector as [1, c, 1], against [n, c, hxw].
Value channels(Lowering& b, Value v, DType t) {
  return b.reshape(b.convert(v, t), {1, v.dim(0), 1});
}

// Wu and He, "Group normalization" (2018).
std::tuple<Value, Value, Value> native_group_norm(Lowering& b, Value x, std::optional<Value> weight,
                                                  std::optional<Value> bias, int64_t n, int64_t c,
                                                  int64_t hxw, int64_t group, double eps) {
  Value grouped = rows(b, x, n, c, hxw, group);
  const Moments m = moments(b, grouped, {2}, true);
  Value rstd = inverse_std(b, m.variance, eps);
  Value out = b.reshape(b.bmul(b.bsub(grouped, m.mean), rstd), {n, c, hxw});
  if (weight) out = b.bmul(out, channels(b, *weight, x.dtype()));
  if (bias) out = b.badd(out, channels(b, *bias, x.dtype()));
  return {b.reshape(out, x.shape()), b.reshape(m.mean, {n, group}), b.reshape(rstd, {n, group})};
}

Results native_group_norm_backward(Lowering& b, Value grad, Value x, Value mean, Value rstd,
                                   std::optional<Value> weight, int64_t n, int64_t c, int64_t hxw,
                                   int64_t group, IntList output_mask) {
  const DType t = x.dtype();
  rstd = b.reshape(b.convert(rstd, t), {n, group, 1});
  Value hat = b.bmul(
      b.bsub(rows(b, x, n, c, hxw, group), b.reshape(b.convert(mean, t), {n, group, 1})), rstd);
  Value flat = b.reshape(grad, {n, c, hxw});
  Results out(3);
  if (output_mask[0] != 0) {
    Value g = weight ? b.bmul(flat, channels(b, *weight, t)) : flat;
    out[0] =
        b.reshape(centred_gradient(b, rows(b, g, n, c, hxw, group), hat, rstd, {2}), x.shape());
  }
  const IntList rest = {0, 2};
  if (output_mask[1] != 0) out[1] = b.sum(b.multiply(flat, b.reshape(hat, {n, c, hxw})), rest);
  if (output_mask[2] != 0) out[2] = b.sum(flat, rest);
  return out;
}

}  // namespace

void register_layer_norm(OperatorTable& table) {
  const RuleOptions options{.opmath = true};
  table.add("native_layer_norm", native_layer_norm, options);
  table.add("native_layer_norm_backward", native_layer_norm_backward, options);
  table.add("_fused_rms_norm", fused_rms_norm, options);
  table.add("_fused_rms_norm_backward", fused_rms_norm_backward, options);
  table.add("native_group_norm", native_group_norm, options);
  table.add("native_group_norm_backward", native_group_norm_backward, options);
}

}  // namespace torch_tpu::lowering
