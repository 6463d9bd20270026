#pragma once

#include <optional>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// Scaled dot-product attention, rank 4: query [batch, heads * groups, rows, width], key and value
// [batch, heads, columns, width]; query heads h*groups .. h*groups + groups - 1 share key head h.
// All accumulation is in `accumulate` (float32, or float64 for float64 operands).
class Attention {
 public:
  // query, key and value may be rank 3 (no batch dimension). `bias` broadcasts against the scores.
  Attention(Lowering& b, Value query, Value key, Value value, std::optional<Value> bias,
            double dropout, bool causal, std::optional<double> scale);

  struct Forward {
    Value out;        // like query, last dimension of value
    Value logsumexp;  // [batch, query heads, rows], of the accumulation type; -inf for masked rows
  };
  // `random_state` is needed for dropout only: {seed, offset} of the words that decide.
  Forward forward(Value random_state);

  struct Backward {
    Value query, key, value;
    std::optional<Value> bias;
  };
  Backward backward(Value grad_out, Value out, Value logsumexp, Value random_state,
                    bool needs_bias);

  // Philox blocks one application draws.
  int64_t random_blocks() const;

 private:
  static constexpr int64_t kRowBlock = 256;
  static constexpr int64_t kColumnBlock = 512;

  // One rectangle of the score matrix.
  struct Tile {
    Value query, key,
        value;  // [batch, heads, groups * rows, width], [batch, heads, columns, width]
    Value first_row, first_column;  // int32 scalars
    std::optional<Value> bias;      // broadcastable to [batch, query heads, rows, columns]
    Value random_state;             // undefined without dropout
    int64_t rows, columns;
  };
  bool blockwise() const;
  Tile whole(Value random_state);
  Tile tile(Value row_block, Value column_block, Value random_state);

  Value fold(Value x);          // [batch, query heads, rows, n] -> [batch, heads, groups * rows, n]
  Value unfold(Value x);        // the inverse
  Value scores(const Tile& t);  // masked, float
  Value kept(const Tile& t);    // dropout factor: 0 or 1 / (1 - p)
  Value weigh(Value weights, Value value);  // [.., rows, columns] x [.., columns, width]
  Value contract(Value x, Value y, int64_t x_dim, int64_t y_dim);
  Value padded(Value x, int64_t dim, int64_t size, double fill = 0);
  Value block(Value x, int64_t dim, Value index, int64_t size);

  struct TileGradients {
    Value query, key, value, scores;
  };
  // `rows_sum`: sum over the width of grad_out * out; not needed for a tile that has all columns.
  // Gradients are of folded operands.
  TileGradients tile_backward(const Tile& t, Value grad_out, Value logsumexp,
                              std::optional<Value> rows_sum);
  // Columns block `j` of the tile at row block `i` matter when j < column_blocks(i).
  Value column_blocks(Value row_block);
  Value first_row_block(Value column_block);

  Forward forward_plain(Value random_state);
  Forward forward_blockwise(Value random_state);
  Backward backward_plain(Value grad_out, Value logsumexp, Value random_state, bool needs_bias);
  Backward backward_blockwise(Value grad_out, Value out, Value logsumexp, Value random_state);

  Lowering& b;
  Value query_, key_, value_;
  std::optional<Value> bias_;
  double dropout_;
  bool causal_;
  double scale_;
  Shape query_shape_, key_shape_, value_shape_;
  std::optional<Shape> bias_shape_;
  int64_t batch_, heads_, groups_, rows_, columns_, width_, value_width_;
  DType dtype_, accumulate_, matrix_;
};

}  // namespace torch_tpu::lowering
