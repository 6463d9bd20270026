#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {
namespace {

// The i-th of n equal parts along the last dimension.
Value part(Lowering& b, Value x, int64_t i, int64_t n) {
  const int64_t size = x.dim(-1) / n;
  return b.slice_dim(x, x.rank() - 1, i * size, (i + 1) * size);
}

// Operands in the type that cells compute in.
struct Wide {
  Lowering& b;
  DType dtype;
  Value operator()(Value x) const { return b.convert(x, opmath(dtype)); }
  Value operator()(Value gates, const std::optional<Value>& bias) const {
    return bias ? b.badd((*this)(gates), (*this)(*bias)) : (*this)(gates);
  }
};

// x * (1 - x)
Value logistic_slope(Lowering& b, Value y) {
  return b.multiply(y, b.subtract(b.full_like(y, 1), y));
}
// 1 - y^2
Value tanh_slope(Lowering& b, Value y) { return b.subtract(b.full_like(y, 1), b.multiply(y, y)); }

Value column_sum(Lowering& b, Value x) {
  const int64_t rows[] = {0};
  return b.sum(x, rows);
}

// Gates in the order input, forget, cell, output; the workspace keeps them after activation.
std::tuple<Value, Value, Value> lstm_cell(Lowering& b, Value input_gates, Value hidden_gates,
                                          Value cx, std::optional<Value> input_bias,
                                          std::optional<Value> hidden_bias) {
  const DType dtype = cx.dtype();
  const Wide wide{b, dtype};
  cx = wide(cx);
  Value gates = b.add(wide(input_gates, input_bias), wide(hidden_gates, hidden_bias));
  Value in = b.logistic(part(b, gates, 0, 4));
  Value forget = b.logistic(part(b, gates, 1, 4));
  Value cell = b.tanh(part(b, gates, 2, 4));
  Value out = b.logistic(part(b, gates, 3, 4));
  Value cy = b.add(b.multiply(forget, cx), b.multiply(in, cell));
  Value hy = b.multiply(out, b.tanh(cy));
  const Value parts[] = {in, forget, cell, out};
  auto narrow = [&](Value v) { return b.convert(v, dtype); };
  return {narrow(hy), narrow(cy), narrow(b.concatenate(parts, gates.rank() - 1))};
}

Results lstm_cell_backward(Lowering& b, std::optional<Value> grad_hy, std::optional<Value> grad_cy,
                           Value cx, Value cy, Value workspace, bool has_bias) {
  if (!grad_hy && !grad_cy) return {std::nullopt, std::nullopt, std::nullopt};
  Value in = part(b, workspace, 0, 4);
  Value forget = part(b, workspace, 1, 4);
  Value cell = part(b, workspace, 2, 4);
  Value out = part(b, workspace, 3, 4);
  Value tanh_cy = b.tanh(cy);
  Value grad_out = b.zeros_like(cx);
  Value grad_cell_state = grad_cy.value_or(b.zeros_like(cx));
  if (grad_hy) {
    grad_out = b.multiply(b.multiply(*grad_hy, tanh_cy), logistic_slope(b, out));
    grad_cell_state =
        b.add(grad_cell_state, b.multiply(b.multiply(*grad_hy, out), tanh_slope(b, tanh_cy)));
  }
  const Value parts[] = {b.multiply(b.multiply(grad_cell_state, cell), logistic_slope(b, in)),
                         b.multiply(b.multiply(grad_cell_state, cx), logistic_slope(b, forget)),
                         b.multiply(b.multiply(grad_cell_state, in), tanh_slope(b, cell)),
                         grad_out};
  Value gates = b.concatenate(parts, workspace.rank() - 1);
  Results results{gates, b.multiply(grad_cell_state, forget), std::nullopt};
  if (has_bias) results[2] = column_sum(b, gates);
  return results;
}

// Gates in the order reset, update, new; the workspace keeps reset, update, new, hx and the hidden
// part of the new gate.
std::pair<Value, Value> gru_cell(Lowering& b, Value input_gates, Value hidden_gates, Value hx,
                                 std::optional<Value> input_bias,
                                 std::optional<Value> hidden_bias) {
  const DType dtype = hx.dtype();
  const Wide wide{b, dtype};
  Value x = wide(input_gates, input_bias);
  Value h = wide(hidden_gates, hidden_bias);
  hx = wide(hx);
  Value reset = b.logistic(b.add(part(b, x, 0, 3), part(b, h, 0, 3)));
  Value update = b.logistic(b.add(part(b, x, 1, 3), part(b, h, 1, 3)));
  Value hidden_new = part(b, h, 2, 3);
  Value fresh = b.tanh(b.add(part(b, x, 2, 3), b.multiply(reset, hidden_new)));
  Value hy = b.add(fresh, b.multiply(update, b.subtract(hx, fresh)));
  const Value parts[] = {reset, update, fresh, hx, hidden_new};
  return {b.convert(hy, dtype), b.convert(b.concatenate(parts, x.rank() - 1), dtype)};
}

// Gradients of the input gates, hidden gates, hx, input bias and hidden bias.
Results gru_cell_backward(Lowering& b, Value grad_hy, Value workspace, bool has_bias) {
  const DType dtype = grad_hy.dtype();
  grad_hy = b.convert(grad_hy, opmath(dtype));
  workspace = b.convert(workspace, opmath(dtype));
  Value reset = part(b, workspace, 0, 5);
  Value update = part(b, workspace, 1, 5);
  Value fresh = part(b, workspace, 2, 5);
  Value hx = part(b, workspace, 3, 5);
  Value hidden_new = part(b, workspace, 4, 5);
  Value grad_update =
      b.multiply(b.multiply(grad_hy, b.subtract(hx, fresh)), logistic_slope(b, update));
  Value grad_new = b.multiply(b.multiply(grad_hy, b.subtract(b.full_like(update, 1), update)),
                              tanh_slope(b, fresh));
  Value grad_reset = b.multiply(b.multiply(grad_new, hidden_new), logistic_slope(b, reset));
  const int64_t last = workspace.rank() - 1;
  const Value input[] = {grad_reset, grad_update, grad_new};
  const Value hidden[] = {grad_reset, grad_update, b.multiply(grad_new, reset)};
  Value grad_input = b.concatenate(input, last);
  Value grad_hidden = b.concatenate(hidden, last);
  Results results{grad_input, grad_hidden, b.multiply(grad_hy, update), std::nullopt, std::nullopt};
  if (has_bias) {
    results[3] = column_sum(b, grad_input);
    results[4] = column_sum(b, grad_hidden);
  }
  for (auto& r : results) {
    if (r) r = b.convert(*r, dtype);
  }
  return results;
}

}  // namespace

// torch.nn.LSTM and GRU are composites of matrix products and these cells.
void register_rnn(OperatorTable& table) {
  // Without meta kernels, or (the LSTM's without bias) with one that fails: results in PyTorch's
  // types.
  table.add("_thnn_fused_lstm_cell", lstm_cell);
  table.add("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward, {.opmath = true});
  table.add("_thnn_fused_gru_cell", gru_cell);
  table.add("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace torch_tpu::lowering
