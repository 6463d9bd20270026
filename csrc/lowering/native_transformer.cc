#include "lowering/native_transformer.h"

#include <cmath>
#include <numbers>

#include "lowering/attention.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {
namespace {

// x [..., in] times weight [out, in] transposed, plus bias [out].
Value linear(Lowering& b, Value x, Value weight, Value bias) {
  stablehlo::DotDims dims;
  dims.lhs_contract = {x.rank() - 1};
  dims.rhs_contract = {1};
  return b.badd(b.dot(x, weight, dims), bias);
}

Value layer_norm(Lowering& b, Value x, Value weight, Value bias, double eps) {
  const DType dtype = x.dtype();
  const int64_t last[] = {-1};
  x = b.convert(x, opmath(dtype));
  Value centred = b.bsub(x, b.mean(x, last, true));
  Value variance = b.mean(b.multiply(centred, centred), last, true);
  Value y = b.bmul(centred, b.rsqrt(b.add_scalar(variance, eps)));
  y = b.badd(b.bmul(y, b.convert(weight, y.dtype())), b.convert(bias, y.dtype()));
  return b.convert(y, dtype);
}

struct Projections {
  Value weight, bias;  // of query, key and value, stacked
  Value out_weight, out_bias;
};

// [batch, length, heads * width] -> [batch, heads, length, width]
Value split_heads(Lowering& b, Value x, int64_t heads) {
  return b.permute(b.reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), {0, 2, 1, 3});
}

// Masked positions are true. Types: 0 is [rows, columns], 1 is [batch, columns], 2 is
// broadcastable.
Value mask_of_scores(Lowering& b, Value mask, std::optional<int64_t> type) {
  mask = b.convert(mask, DType::kPred);
  if (type == 1 && mask.rank() == 2) return b.reshape(mask, {mask.dim(0), 1, 1, mask.dim(1)});
  return mask;
}

struct Attended {
  Value out, weights;  // weights [batch, heads, rows, columns], where asked for
};

Attended attend(Lowering& b, Value query, Value key, Value value, int64_t heads,
                const Projections& p, std::optional<Value> mask, std::optional<int64_t> mask_type,
                bool needs_weights) {
  const int64_t size = p.out_weight.dim(0);
  auto rows = [&](Value x, int64_t i) { return b.slice_dim(x, 0, i * size, (i + 1) * size); };
  auto project = [&](Value x, int64_t i) {
    return split_heads(b, linear(b, x, rows(p.weight, i), rows(p.bias, i)), heads);
  };
  Value q, k, v;
  if (query == key && key == value) {
    Value all = linear(b, query, p.weight, p.bias);
    auto part = [&](int64_t i) {
      return split_heads(b, b.slice_dim(all, 2, i * size, (i + 1) * size), heads);
    };
    q = part(0);
    k = part(1);
    v = part(2);
  } else {
    q = project(query, 0);
    k = project(key, 1);
    v = project(value, 2);
  }
  Attended result;
  Value context;
  if (!mask && !needs_weights) {
    context = Attention(b, q, k, v, std::nullopt, 0, false, std::nullopt).forward(Value()).out;
  } else {
    const DType accumulate = opmath(q.dtype());
    stablehlo::DotDims scores_dims;
    scores_dims.lhs_batch = scores_dims.rhs_batch = {0, 1};
    scores_dims.lhs_contract = scores_dims.rhs_contract = {3};
    Value s = b.dot(q, k, scores_dims, accumulate);
    s = b.mul_scalar(s, 1 / std::sqrt(static_cast<double>(q.dim(3))));
    if (mask)
      s = b.bselect(mask_of_scores(b, *mask, mask_type), b.neg_inf(accumulate, s.shape()), s);
    const int64_t last[] = {3};
    Value weights = b.exp(b.bsub(s, b.reduce_max(s, last, true)));
    weights = b.convert(b.bdiv(weights, b.sum(weights, last, true)), q.dtype());
    stablehlo::DotDims values_dims;
    values_dims.lhs_batch = values_dims.rhs_batch = {0, 1};
    values_dims.lhs_contract = {3};
    values_dims.rhs_contract = {2};
    context = b.dot(weights, v, values_dims);
    result.weights = weights;
  }
  context = b.reshape(b.permute(context, {0, 2, 1, 3}), {query.dim(0), query.dim(1), size});
  result.out = linear(b, context, p.out_weight, p.out_bias);
  return result;
}

std::pair<Value, Value> multi_head_attention(Lowering& b, Value query, Value key, Value value,
                                             int64_t /*embed_dim*/, int64_t heads, Value qkv_weight,
                                             Value qkv_bias, Value proj_weight, Value proj_bias,
                                             std::optional<Value> mask, bool need_weights,
                                             bool average, std::optional<int64_t> mask_type) {
  const Attended r =
      attend(b, query, key, value, heads, {qkv_weight, qkv_bias, proj_weight, proj_bias}, mask,
             mask_type, need_weights);
  if (!need_weights) return {r.out, b.full({query.dtype(), b.out(1).shape}, 0)};
  const int64_t by_head[] = {1};
  return {r.out, average ? b.mean(r.weights, by_head) : r.weights};
}

Value transformer_encoder_layer(Lowering& b, Value src, int64_t /*embed_dim*/, int64_t heads,
                                Value qkv_weight, Value qkv_bias, Value proj_weight,
                                Value proj_bias, bool use_gelu, bool norm_first, double eps,
                                Value norm_weight_1, Value norm_bias_1, Value norm_weight_2,
                                Value norm_bias_2, Value ffn_weight_1, Value ffn_bias_1,
                                Value ffn_weight_2, Value ffn_bias_2, std::optional<Value> mask,
                                std::optional<int64_t> mask_type) {
  auto norm_1 = [&](Value x) { return layer_norm(b, x, norm_weight_1, norm_bias_1, eps); };
  auto norm_2 = [&](Value x) { return layer_norm(b, x, norm_weight_2, norm_bias_2, eps); };
  auto activation = [&](Value x) {
    if (!use_gelu) return b.maximum(x, b.zeros_like(x));
    Value wide = b.convert(x, opmath(x.dtype()));
    Value cdf = b.add_scalar(b.chlo("erf", b.mul_scalar(wide, std::numbers::sqrt2 / 2)), 1);
    return b.convert(b.mul_scalar(b.multiply(wide, cdf), 0.5), x.dtype());
  };
  auto feed_forward = [&](Value x) {
    return linear(b, activation(linear(b, x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2);
  };
  auto attention = [&](Value x) {
    return attend(b, x, x, x, heads, {qkv_weight, qkv_bias, proj_weight, proj_bias}, mask,
                  mask_type, false)
        .out;
  };
  if (norm_first) {
    Value x = b.add(src, attention(norm_1(src)));
    return b.add(x, feed_forward(norm_2(x)));
  }
  Value x = norm_1(b.add(src, attention(src)));
  return norm_2(b.add(x, feed_forward(x)));
}

}  // namespace

void register_native_transformer(OperatorTable& table) {
  table.add("_native_multi_head_attention", multi_head_attention);
  table.add("_transformer_encoder_layer_fwd", transformer_encoder_layer);
}

}  // namespace torch_tpu::lowering
