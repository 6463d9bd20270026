#include "lowering/activation.h"

#include <cmath>
#include <numbers>

#include "lowering/families.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

Value relu(Lowering& b, Value x) { return b.maximum(x, b.zeros_like(x)); }

Value relu6(Lowering& b, Value x) { return b.minimum(relu(b, x), b.full_like(x, 6)); }

Value leaky_relu(Lowering& b, Value x, Operand slope) {
  return b.select(greater(b, x, 0), x, b.multiply(x, b.number_like(slope, x)));
}

Value threshold(Lowering& b, Value x, Operand limit, Operand value) {
  return b.select(b.compare(x, b.number_like(limit, x), Compare::kLe), b.number_like(value, x), x);
}

Value hardtanh(Lowering& b, Value x, Operand low, Operand high) {
  return b.minimum(b.maximum(x, b.number_like(low, x)), b.number_like(high, x));
}

Value hardsigmoid(Lowering& b, Value x) {
  return b.bdiv(relu6(b, b.add_scalar(x, 3)), b.constant(x.dtype(), 6));
}

Value hardswish(Lowering& b, Value x) {
  return b.bdiv(b.multiply(x, relu6(b, b.add_scalar(x, 3))), b.constant(x.dtype(), 6));
}

Value elu(Lowering& b, Value x, Operand alpha, Operand scale, Operand input_scale) {
  Value positive = b.number_like(scale, x);
  Value negative = b.multiply(b.number_like(alpha, x), positive);
  Value curve = b.multiply(b.expm1(b.multiply(x, b.number_like(input_scale, x))), negative);
  return b.select(less_equal(b, x, 0), curve, b.multiply(x, positive));
}

Value softplus(Lowering& b, Value x, Operand beta, Operand threshold) {
  Value scaled = b.multiply(x, b.number_like(beta, x));
  Value linear = b.compare(scaled, b.number_like(threshold, x), Compare::kGt);
  return b.select(linear, x, b.bdiv(b.log1p(b.exp(scaled)), b.number(beta, x.dtype())));
}

// x Phi(x) with the Gaussian distribution function, or Hendrycks and Gimpel's tanh approximation
// (https://arxiv.org/abs/1606.08415).
Value gelu(Lowering& b, Value x, std::string approximate) {
  TT_CHECK(approximate == "none" || approximate == "tanh", kInvalidArgument,
           "approximate argument must be either none or tanh.");
  Value half = b.mul_scalar(x, 0.5);
  if (approximate != "tanh") {
    return b.multiply(half,
                      b.add_scalar(b.chlo("erf", b.mul_scalar(x, std::numbers::sqrt2 / 2)), 1));
  }
  Value cubic = b.add(x, b.mul_scalar(b.multiply(square(b, x), x), 0.044715));
  Value inner = b.mul_scalar(cubic, std::sqrt(2 / std::numbers::pi));
  return b.multiply(half, b.add_scalar(b.tanh(inner), 1));
}

Value silu(Lowering& b, Value x) { return b.multiply(x, sigmoid(b, x)); }

Value mish(Lowering& b, Value x) { return b.multiply(x, b.tanh(b.log1p(b.exp(x)))); }

// The second result, exp(-|x|), is what the backward needs; some devices leave it empty.
std::pair<Value, Value> log_sigmoid_forward(Lowering& b, Value x) {
  Value buffer = b.exp(b.negate(b.abs(x)));
  if (b.out(1).shape != x.shape()) buffer = b.full(b.out(1), 0);
  return {log_sigmoid(b, x), buffer};
}

Value prelu(Lowering& b, Value x, Value weight) {
  b.broadcast_pair(x, weight);
  return b.select(greater(b, x, 0), x, b.multiply(x, weight));
}

Value hardshrink(Lowering& b, Value x, Operand lambd) {
  Value inside = b.compare(b.abs(x), b.number_like(lambd, x), Compare::kLe);
  return where_constant(b, inside, 0, x);
}

Value softshrink(Lowering& b, Value x, Operand lambd) {
  Value limit = b.number_like(lambd, x);
  Value inside = b.mul_scalar(x, 0);  // NaN stays
  Value low = b.select(b.compare(x, b.negate(limit), Compare::kLt), b.add(x, limit), inside);
  return b.select(b.compare(x, limit, Compare::kGt), b.subtract(x, limit), low);
}

}  // namespace

Value log_sigmoid(Lowering& b, Value x) {
  return b.subtract(b.minimum(x, b.zeros_like(x)), b.log1p(b.exp(b.negate(b.abs(x)))));
}

void register_activation(OperatorTable& table) {
  constexpr RuleOptions kMath{.opmath = true};
  table.add("relu", relu);
  table.add("leaky_relu", leaky_relu, kMath);
  table.add("threshold", threshold);
  table.add("hardtanh", hardtanh, kMath);
  table.add("hardsigmoid", hardsigmoid, kMath);
  table.add("hardswish", hardswish, kMath);
  table.add("elu", elu, kMath);
  table.add("softplus", softplus, kMath);
  table.add("gelu", gelu, kMath);
  table.add("silu", silu, kMath);
  table.add("mish", mish, kMath);
  table.add("log_sigmoid_forward", log_sigmoid_forward, kMath);
  table.add("_prelu_kernel", prelu, {.promotion = Promotion::kResult, .opmath = true});
  table.add("hardshrink", hardshrink, kMath);
  table.add("softshrink", softshrink, kMath);

  register_activation_backward(table);
  register_softmax(table);
  register_glu(table);
}

}  // namespace torch_tpu::lowering
