#include "lowering/attention.h"

#include <limits>

#include "lowering/loops.h"

namespace torch_tpu::lowering {

// With P the softmax, M the dropout factor and O = (P * M) V:
//   dV = (P * M)^T dO,  dS = P * (M * (dO V^T) - rowsum(dO * O)),  dQ = scale dS K,  dK = scale
//   dS^T Q
// (Dao et al. 2022, appendix B.2).
Attention::TileGradients Attention::tile_backward(const Tile& t, Value grad_out, Value logsumexp,
                                                  std::optional<Value> rows_sum) {
  Value s = scores(t);
  Value masked = b.compare(logsumexp, b.neg_inf(accumulate_, logsumexp.shape()), Compare::kEq);
  Value shift = b.select(masked, b.zeros_like(logsumexp), logsumexp);
  Value weights = b.exp(b.bsub(s, shift));
  Value grad_weights = unfold(contract(fold(grad_out), t.value, 3, 3));
  Value dropped = weights;
  if (dropout_ != 0) {
    Value factor = kept(t);
    grad_weights = b.multiply(grad_weights, factor);
    dropped = b.multiply(weights, factor);
  }
  // Over all columns, the same sum without the rounding of a half `out`.
  const int64_t last[] = {3};
  if (!rows_sum) rows_sum = b.sum(b.multiply(weights, grad_weights), last, true);
  Value grad_scores = b.multiply(weights, b.bsub(grad_weights, *rows_sum));
  Value folded = fold(grad_scores);
  TileGradients g;
  g.query = unfold(b.mul_scalar(contract(folded, t.key, 3, 2), scale_));
  g.key = b.mul_scalar(contract(folded, t.query, 2, 2), scale_);
  g.value = contract(fold(dropped), fold(grad_out), 2, 2);
  g.scores = grad_scores;
  return g;
}

Attention::Backward Attention::backward(Value grad_out, Value out, Value logsumexp,
                                        Value random_state, bool needs_bias) {
  const Shape out_shape{batch_, heads_ * groups_, rows_, value_width_};
  grad_out = b.convert(b.reshape(grad_out, out_shape), accumulate_);
  out = b.convert(b.reshape(out, out_shape), accumulate_);
  logsumexp = b.convert(b.reshape(logsumexp, {batch_, heads_ * groups_, rows_, 1}), accumulate_);
  // The gradient of a bias is as large as the scores: blocks would save nothing.
  return blockwise() && !needs_bias ? backward_blockwise(grad_out, out, logsumexp, random_state)
                                    : backward_plain(grad_out, logsumexp, random_state, needs_bias);
}

Attention::Backward Attention::backward_plain(Value grad_out, Value logsumexp, Value random_state,
                                              bool needs_bias) {
  const int64_t last[] = {3};
  Tile t = whole(random_state);
  if (accumulate_ == DType::kF64) {
    // The logsumexp that came with the output is float32.
    Value s = scores(t);
    Value top = b.reduce_max(s, last, true);
    Value masked = b.compare(top, b.neg_inf(accumulate_, top.shape()), Compare::kEq);
    Value shift = b.select(masked, b.zeros_like(top), top);
    logsumexp = b.add(shift, b.log(b.sum(b.exp(b.bsub(s, shift)), last, true)));
  }
  const TileGradients g = tile_backward(t, grad_out, logsumexp, std::nullopt);
  Backward result{b.convert(b.reshape(g.query, query_shape_), dtype_),
                  b.convert(b.reshape(g.key, key_shape_), dtype_),
                  b.convert(b.reshape(g.value, value_shape_), dtype_), std::nullopt};
  if (needs_bias)
    result.bias = b.convert(b.reshape(b.sum_to(g.scores, bias_->shape()), *bias_shape_), dtype_);
  return result;
}

Attention::Backward Attention::backward_blockwise(Value grad_out, Value out, Value logsumexp,
                                                  Value random_state) {
  constexpr int64_t kRows = kRowBlock;
  constexpr int64_t kColumns = kColumnBlock;
  const int64_t row_blocks = (rows_ + kRows - 1) / kRows;
  const int64_t columns_blocks = (columns_ + kColumns - 1) / kColumns;
  const int64_t padded_rows = row_blocks * kRows;
  const int64_t padded_columns = columns_blocks * kColumns;
  const int64_t last[] = {3};
  Value rows_sum = padded(b.sum(b.multiply(grad_out, out), last, true), 2, padded_rows);
  // Padding rows add nothing: their gradient is zero and so are, at an infinite logsumexp, their
  // weights.
  grad_out = padded(b.convert(grad_out, matrix_), 2, padded_rows);
  logsumexp = padded(logsumexp, 2, padded_rows, std::numeric_limits<double>::infinity());
  query_ = padded(query_, 2, padded_rows);
  key_ = padded(key_, 2, padded_columns);
  value_ = padded(value_, 2, padded_columns);
  if (bias_ && bias_->dim(2) != 1) bias_ = padded(*bias_, 2, padded_rows);
  if (bias_ && bias_->dim(3) != 1) bias_ = padded(*bias_, 3, padded_columns);

  Value zero = b.constant_int(DType::kS32, 0);
  const Shape key_block{batch_, heads_, kColumns, width_};
  const Shape value_block{batch_, heads_, kColumns, value_width_};
  const Values all =
      for_loop(b, columns_blocks,
               {b.full({accumulate_, query_.shape()}, 0), b.full({accumulate_, key_.shape()}, 0),
                b.full({accumulate_, value_.shape()}, 0)},
               [&](Value j, std::span<const Value> results) {
                 const Values state =
                     for_loop(b, first_row_block(j), b.constant_int(DType::kS32, row_blocks),
                              {results[0], b.full({accumulate_, key_block}, 0),
                               b.full({accumulate_, value_block}, 0)},
                              [&](Value i, std::span<const Value> a) {
                                const Tile t = tile(i, j, random_state);
                                const TileGradients g = tile_backward(
                                    t, block(grad_out, 2, i, kRows), block(logsumexp, 2, i, kRows),
                                    block(rows_sum, 2, i, kRows));
                                const Value start[] = {zero, zero, t.first_row, zero};
                                Value query = b.add(block(a[0], 2, i, kRows), g.query);
                                return Values{b.dynamic_update_slice(a[0], query, start),
                                              b.add(a[1], g.key), b.add(a[2], g.value)};
                              });
                 const Value start[] = {zero, zero,
                                        b.multiply(j, b.constant_int(DType::kS32, kColumns)), zero};
                 return Values{state[0], b.dynamic_update_slice(results[1], state[1], start),
                               b.dynamic_update_slice(results[2], state[2], start)};
               });
  auto result = [&](Value grad, int64_t size, const Shape& shape) {
    return b.convert(b.reshape(b.slice_dim(grad, 2, 0, size), shape), dtype_);
  };
  return {result(all[0], rows_, query_shape_), result(all[1], columns_, key_shape_),
          result(all[2], columns_, value_shape_), std::nullopt};
}

}  // namespace torch_tpu::lowering
