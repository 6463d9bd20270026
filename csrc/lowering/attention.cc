#include "lowering/attention.h"

#include <algorithm>
#include <cmath>

#include "lowering/families.h"
#include "lowering/loops.h"
#include "lowering/native_transformer.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {
namespace {

// Scores beyond this many elements are formed block by block.
constexpr int64_t kPlainScores = int64_t{1} << 25;

int64_t blocks_of(int64_t size, int64_t block) { return (size + block - 1) / block; }

Value batched(Lowering& b, Value x, int64_t rank) {
  Shape shape = x.shape();
  while (static_cast<int64_t>(shape.size()) < rank) shape.insert(shape.begin(), 1);
  return b.reshape(x, shape);
}

}  // namespace

Attention::Attention(Lowering& builder, Value query, Value key, Value value,
                     std::optional<Value> bias, double dropout, bool causal,
                     std::optional<double> scale)
    : b(builder),
      query_(batched(builder, query, 4)),
      key_(batched(builder, key, 4)),
      value_(batched(builder, value, 4)),
      dropout_(dropout),
      causal_(causal),
      query_shape_(query.shape()),
      key_shape_(key.shape()),
      value_shape_(value.shape()) {
  for (Value x : {query, key, value}) {
    TT_CHECK(x.rank() == 3 || x.rank() == 4, kInvalidArgument, b.op_name(),
             ": query, key and value must have 3 or 4 dimensions, got ", to_string(x.shape()));
  }
  batch_ = query_.dim(0);
  heads_ = key_.dim(1);
  rows_ = query_.dim(2);
  columns_ = key_.dim(2);
  width_ = query_.dim(3);
  value_width_ = value_.dim(3);
  TT_CHECK(key_.dim(0) == batch_ && value_.dim(0) == batch_ && value_.dim(1) == heads_ &&
               value_.dim(2) == columns_ && key_.dim(3) == width_ && heads_ > 0 &&
               query_.dim(1) % heads_ == 0,
           kInvalidArgument, b.op_name(), ": query ", to_string(query_shape_), ", key ",
           to_string(key_shape_), " and value ", to_string(value_shape_), " don't fit together");
  groups_ = query_.dim(1) / heads_;
  scale_ = scale.value_or(1.0 / std::sqrt(static_cast<double>(width_)));
  dtype_ = query.dtype();
  accumulate_ = opmath(dtype_);
  // XLA's CPU compiler widens half matrices anyway; a TPU multiplies them natively.
  matrix_ = b.settings().is_cpu ? accumulate_ : dtype_;
  query_ = b.convert(query_, matrix_);
  key_ = b.convert(key_, matrix_);
  value_ = b.convert(value_, matrix_);
  if (bias) {
    bias_shape_ = bias->shape();
    bias_ = batched(b, *bias, 4);
    if (is_bool(bias->dtype())) {
      bias_ = b.select(*bias_, b.full({accumulate_, bias_->shape()}, 0),
                       b.neg_inf(accumulate_, bias_->shape()));
    }
    bias_ = b.convert(*bias_, accumulate_);
  }
}

bool Attention::blockwise() const {
  // Gradients in float64 need more than the float32 logsumexp that the operator keeps.
  return accumulate_ == DType::kF32 && rows_ >= 2 * kRowBlock && columns_ >= 2 * kColumnBlock &&
         batch_ * heads_ * groups_ * rows_ * columns_ > kPlainScores;
}

int64_t Attention::random_blocks() const {
  if (dropout_ == 0) return 0;
  const int64_t matrices = batch_ * heads_ * groups_;
  if (!blockwise()) return Lowering::random_blocks_of({matrices, rows_, columns_});
  return blocks_of(rows_, kRowBlock) * blocks_of(columns_, kColumnBlock) *
         Lowering::random_blocks_of({matrices, kRowBlock, kColumnBlock});
}

Value Attention::fold(Value x) {
  if (groups_ == 1) return x;
  return b.reshape(x, {batch_, heads_, groups_ * x.dim(2), x.dim(3)});
}

Value Attention::unfold(Value x) {
  if (groups_ == 1) return x;
  return b.reshape(x, {batch_, heads_ * groups_, x.dim(2) / groups_, x.dim(3)});
}

Value Attention::contract(Value x, Value y, int64_t x_dim, int64_t y_dim) {
  stablehlo::DotDims dims;
  dims.lhs_batch = dims.rhs_batch = {0, 1};
  dims.lhs_contract = {x_dim};
  dims.rhs_contract = {y_dim};
  return b.dot(b.convert(x, matrix_), b.convert(y, matrix_), dims, accumulate_);
}

Value Attention::weigh(Value weights, Value value) { return contract(weights, value, 3, 2); }

Value Attention::scores(const Tile& t) {
  Value s = b.mul_scalar(contract(t.query, t.key, 3, 3), scale_);
  s = unfold(s);
  if (t.bias) s = b.badd(s, *t.bias);
  const bool tail = columns_ % t.columns != 0;
  if (causal_ || tail) {
    const TensorType matrix{DType::kS32, {t.rows, t.columns}};
    Value column = b.badd(b.iota(matrix, 1), t.first_column);
    Value visible;
    if (causal_) visible = b.compare(b.badd(b.iota(matrix, 0), t.first_row), column, Compare::kGe);
    if (tail) {
      Value inside =
          b.compare(column, b.constant_int(DType::kS32, columns_, matrix.shape), Compare::kLt);
      visible = causal_ ? b.and_(visible, inside) : inside;
    }
    s = b.bselect(visible, s, b.neg_inf(accumulate_));
  }
  return s;
}

Value Attention::kept(const Tile& t) {
  const Shape shape{batch_, heads_ * groups_, t.rows, t.columns};
  if (dropout_ >= 1) return b.full({accumulate_, shape}, 0);
  // A word below p * 2^32 drops its element.
  const double threshold = std::min(std::round(dropout_ * 0x1p32), 0x1p32 - 1);
  Value words = b.random_words_at(t.random_state, shape);
  Value keep = b.compare(words, b.constant_int(DType::kU32, static_cast<int64_t>(threshold), shape),
                         Compare::kGe);
  return b.select(keep, b.full({accumulate_, shape}, 1 / (1 - dropout_)),
                  b.full({accumulate_, shape}, 0));
}

Value Attention::padded(Value x, int64_t dim, int64_t size, double fill) {
  if (x.dim(dim) == size) return x;
  IntList low(4, 0), high(4, 0);
  high[static_cast<size_t>(dim)] = size - x.dim(dim);
  return b.pad(x, b.constant(x.dtype(), fill), low, high);
}

Value Attention::block(Value x, int64_t dim, Value index, int64_t size) {
  if (x.dim(dim) == 1 && size != 1) return x;  // broadcast dimension of a bias
  Values start(static_cast<size_t>(x.rank()), b.constant_int(DType::kS32, 0));
  start[static_cast<size_t>(dim)] = b.multiply(index, b.constant_int(DType::kS32, size));
  Shape sizes = x.shape();
  sizes[static_cast<size_t>(dim)] = size;
  return b.dynamic_slice(x, start, sizes);
}

Attention::Tile Attention::whole(Value random_state) {
  Value zero = b.constant_int(DType::kS32, 0);
  return {fold(query_), key_, value_, zero, zero, bias_, random_state, rows_, columns_};
}

Attention::Tile Attention::tile(Value row_block, Value column_block, Value random_state) {
  Tile t;
  t.rows = kRowBlock;
  t.columns = kColumnBlock;
  t.query = fold(block(query_, 2, row_block, kRowBlock));
  t.key = block(key_, 2, column_block, kColumnBlock);
  t.value = block(value_, 2, column_block, kColumnBlock);
  t.first_row = b.multiply(row_block, b.constant_int(DType::kS32, kRowBlock));
  t.first_column = b.multiply(column_block, b.constant_int(DType::kS32, kColumnBlock));
  if (bias_) t.bias = block(block(*bias_, 2, row_block, kRowBlock), 3, column_block, kColumnBlock);
  if (dropout_ != 0) {
    const int64_t matrices = batch_ * heads_ * groups_;
    const int64_t per_tile = Lowering::random_blocks_of({matrices, kRowBlock, kColumnBlock});
    Value index =
        b.add(b.multiply(row_block, b.constant_int(DType::kS32, blocks_of(columns_, kColumnBlock))),
              column_block);
    Value offset = b.multiply(b.convert(index, DType::kU64), b.constant_int(DType::kU64, per_tile));
    const Value parts[] = {b.constant_int(DType::kU64, 0, {1}), b.reshape(offset, {1})};
    t.random_state = b.add(random_state, b.concatenate(parts, 0));
  }
  return t;
}

Value Attention::column_blocks(Value row_block) {
  Value all = b.constant_int(DType::kS32, blocks_of(columns_, kColumnBlock));
  if (!causal_) return all;
  // The last row sees columns up to itself.
  Value rows = b.multiply(b.add(row_block, b.constant_int(DType::kS32, 1)),
                          b.constant_int(DType::kS32, kRowBlock));
  Value needed = b.divide(b.add(rows, b.constant_int(DType::kS32, kColumnBlock - 1)),
                          b.constant_int(DType::kS32, kColumnBlock));
  return b.minimum(all, needed);
}

Value Attention::first_row_block(Value column_block) {
  if (!causal_) return b.constant_int(DType::kS32, 0);
  return b.divide(b.multiply(column_block, b.constant_int(DType::kS32, kColumnBlock)),
                  b.constant_int(DType::kS32, kRowBlock));
}

Attention::Forward Attention::forward(Value random_state) {
  return blockwise() ? forward_blockwise(random_state) : forward_plain(random_state);
}

// Rows without a visible column give zeros, as PyTorch's _safe_softmax does.
Attention::Forward Attention::forward_plain(Value random_state) {
  const Tile t = whole(random_state);
  Value s = scores(t);
  const int64_t last[] = {3};
  Value top = b.reduce_max(s, last, true);
  Value masked = b.compare(top, b.neg_inf(accumulate_, top.shape()), Compare::kEq);
  Value shift = b.select(masked, b.zeros_like(top), top);
  Value weights = b.exp(b.bsub(s, shift));
  Value total = b.sum(weights, last, true);
  Value logsumexp = b.add(shift, b.log(total));
  Value divisor = b.select(masked, b.full_like(total, 1), total);
  weights = b.bdiv(weights, divisor);
  if (dropout_ != 0) weights = b.multiply(weights, kept(t));
  Value out = unfold(weigh(fold(weights), t.value));
  Shape shape = query_shape_;
  shape.back() = value_width_;
  return {b.convert(b.reshape(out, shape), dtype_), b.squeeze_dim(logsumexp, 3)};
}

// Online softmax (Milakov & Gimelshein 2018; Dao et al. 2022, algorithm 1).
Attention::Forward Attention::forward_blockwise(Value random_state) {
  const int64_t row_blocks = blocks_of(rows_, kRowBlock);
  const int64_t query_heads = heads_ * groups_;
  const int64_t padded_rows = row_blocks * kRowBlock;
  const int64_t padded_columns = blocks_of(columns_, kColumnBlock) * kColumnBlock;
  query_ = padded(query_, 2, padded_rows);
  key_ = padded(key_, 2, padded_columns);
  value_ = padded(value_, 2, padded_columns);
  if (bias_ && bias_->dim(2) != 1) bias_ = padded(*bias_, 2, padded_rows);
  if (bias_ && bias_->dim(3) != 1) bias_ = padded(*bias_, 3, padded_columns);

  const int64_t last[] = {3};
  const Values all = for_loop(
      b, row_blocks,
      {b.full({dtype_, {batch_, query_heads, padded_rows, value_width_}}, 0),
       b.full({accumulate_, {batch_, query_heads, padded_rows, 1}}, 0)},
      [&](Value i, std::span<const Value> results) {
        const Shape column{batch_, query_heads, kRowBlock, 1};
        const Values state = for_loop(
            b, b.constant_int(DType::kS32, 0), column_blocks(i),
            {b.full({accumulate_, {batch_, query_heads, kRowBlock, value_width_}}, 0),
             b.neg_inf(accumulate_, column), b.full({accumulate_, column}, 0)},
            [&](Value j, std::span<const Value> a) {
              const Tile t = tile(i, j, random_state);
              Value s = scores(t);
              Value top = b.maximum(a[1], b.reduce_max(s, last, true));
              Value masked = b.compare(top, b.neg_inf(accumulate_, column), Compare::kEq);
              Value shift = b.select(masked, b.zeros_like(top), top);
              Value weights = b.exp(b.bsub(s, shift));
              Value rescale = b.exp(b.subtract(a[1], shift));
              Value total = b.add(b.multiply(a[2], rescale), b.sum(weights, last, true));
              if (dropout_ != 0) weights = b.multiply(weights, kept(t));
              Value sum = b.add(b.bmul(a[0], rescale), unfold(weigh(fold(weights), t.value)));
              return Values{sum, top, total};
            });
        Value masked = b.compare(state[1], b.neg_inf(accumulate_, column), Compare::kEq);
        Value divisor = b.select(masked, b.full({accumulate_, column}, 1), state[2]);
        Value out = b.convert(b.bdiv(state[0], divisor), dtype_);
        Value logsumexp = b.add(state[1], b.log(divisor));
        Value zero = b.constant_int(DType::kS32, 0);
        const Value start[] = {zero, zero, b.multiply(i, b.constant_int(DType::kS32, kRowBlock)),
                               zero};
        return Values{b.dynamic_update_slice(results[0], out, start),
                      b.dynamic_update_slice(results[1], logsumexp, start)};
      });
  Shape shape = query_shape_;
  shape.back() = value_width_;
  return {b.reshape(b.slice_dim(all[0], 2, 0, rows_), shape),
          b.squeeze_dim(b.slice_dim(all[1], 2, 0, rows_), 3)};
}

namespace {

// Seed and offset travel to the backward as two int64 scalars.
Value state_of(Lowering& b, Value seed, Value offset) {
  const Value parts[] = {b.reshape(b.bitcast_convert(seed, DType::kU64), {1}),
                         b.reshape(b.bitcast_convert(offset, DType::kU64), {1})};
  return b.concatenate(parts, 0);
}

Value state_word(Lowering& b, Value state, int64_t i) {
  return b.bitcast_convert(b.reshape(b.slice_dim(state, 0, i, i + 1), {}), DType::kS64);
}

Results sdpa(Lowering& b, Value query, Value key, Value value, std::optional<Value> bias,
             double dropout, bool causal, bool /*return_debug_mask*/, std::optional<double> scale) {
  Attention attention(b, query, key, value, bias, dropout, causal, scale);
  Value state, seed = b.constant_int(DType::kS64, 0), offset = seed;
  if (dropout != 0) {
    state = b.random_state();
    b.advance_random(attention.random_blocks());
    seed = state_word(b, state, 0);
    offset = state_word(b, state, 1);
  }
  const auto result = attention.forward(state);
  // cum_seq_q, cum_seq_k and the debug mask are undefined; max_q and max_k are no tensors, hence
  // left out.
  return {result.out, result.logsumexp, std::nullopt, std::nullopt, seed, offset, std::nullopt};
}

Results sdpa_backward(Lowering& b, Value grad_out, Value query, Value key, Value value,
                      std::optional<Value> bias, IntList needs, Value out, Value logsumexp, Ignored,
                      Ignored, Ignored, Ignored, double dropout, bool causal,
                      std::optional<Value> seed, std::optional<Value> offset,
                      std::optional<double> scale) {
  Attention attention(b, query, key, value, bias, dropout, causal, scale);
  Value state;
  if (dropout != 0) state = state_of(b, seed.value(), offset.value());
  const bool needs_bias = bias && needs.size() > 3 && needs[3] != 0;
  auto grads = attention.backward(grad_out, out, logsumexp, state, needs_bias);
  // PyTorch's meta kernel promises a gradient of the bias whether or not it is needed.
  if (bias && !grads.bias) grads.bias = b.zeros_like(*bias);
  return {grads.query, grads.key, grads.value, grads.bias};
}

}  // namespace

void register_attention(OperatorTable& table) {
  table.add("_scaled_dot_product_fused_attention_overrideable", sdpa, {.random = true});
  table.add("_scaled_dot_product_fused_attention_overrideable_backward", sdpa_backward);
  register_native_transformer(table);
}

}  // namespace torch_tpu::lowering
