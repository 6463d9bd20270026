#include <cmath>
#include <numbers>

#include "lowering/activation.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

Value sigmoid_backward(Lowering& b, Value grad, Value output) {
  b.broadcast_pair(grad, output);
  if (is_complex(output.dtype())) {
    Value slope = b.multiply(complement(b, output), output);
    return b.multiply(grad, b.complex(b.real(slope), b.negate(b.imag(slope))));
  }
  return b.multiply(grad, b.multiply(complement(b, output), output));
}

Value tanh_backward(Lowering& b, Value grad, Value output) {
  b.broadcast_pair(grad, output);
  Value slope = complement(b, square(b, output));
  if (is_complex(slope.dtype())) slope = b.complex(b.real(slope), b.negate(b.imag(slope)));
  return b.multiply(grad, slope);
}

Value threshold_backward(Lowering& b, Value grad, Value x, Operand limit) {
  b.broadcast_pair(grad, x);
  return where_constant(b, b.compare(x, b.number_like(limit, x), Compare::kLe), 0, grad);
}

Value leaky_relu_backward(Lowering& b, Value grad, Value x, Operand slope, bool) {
  b.broadcast_pair(grad, x);
  return b.select(greater(b, x, 0), grad, b.multiply(grad, b.number_like(slope, grad)));
}

Value hardtanh_backward(Lowering& b, Value grad, Value x, Operand low, Operand high) {
  b.broadcast_pair(grad, x);
  Value outside = b.or_(b.compare(x, b.number_like(low, x), Compare::kLe),
                        b.compare(x, b.number_like(high, x), Compare::kGe));
  return where_constant(b, outside, 0, grad);
}

Value hardsigmoid_backward(Lowering& b, Value grad, Value x) {
  b.broadcast_pair(grad, x);
  Value inside = b.and_(greater(b, x, -3), less(b, x, 3));
  return where_constant(b, inside, b.mul_scalar(grad, 1.0 / 6.0), 0);
}

Value hardswish_backward(Lowering& b, Value grad, Value x) {
  b.broadcast_pair(grad, x);
  Value slope = b.add_scalar(b.bdiv(x, b.constant(x.dtype(), 3)), 0.5);
  Value upper = b.select(less(b, x, 3), b.multiply(grad, slope), grad);
  return where_constant(b, less_equal(b, x, -3), 0, upper);
}

// From the input, or from the output when the forward ran in place.
Value elu_backward(Lowering& b, Value grad, Operand alpha, Operand scale, Operand input_scale,
                   bool is_result, Value x) {
  b.broadcast_pair(grad, x);
  Value positive = b.number_like(scale, x);
  Value negative = b.multiply(b.number_like(alpha, x), positive);
  Value inner = b.number_like(input_scale, x);
  Value curve = is_result ? b.add(x, negative) : b.multiply(negative, b.exp(b.multiply(x, inner)));
  Value slope = b.select(less_equal(b, x, 0), b.multiply(inner, curve), positive);
  return b.multiply(grad, slope);
}

Value softplus_backward(Lowering& b, Value grad, Value x, Operand beta, Operand threshold) {
  b.broadcast_pair(grad, x);
  Value scaled = b.multiply(x, b.number_like(beta, x));
  Value linear = b.compare(scaled, b.number_like(threshold, x), Compare::kGt);
  return b.select(linear, grad, b.multiply(grad, b.logistic(scaled)));
}

// d/dx x Phi(x) = Phi(x) + x phi(x), or the derivative of the tanh form.
Value gelu_backward(Lowering& b, Value grad, Value x, std::string approximate) {
  b.broadcast_pair(grad, x);
  if (approximate != "tanh") {
    Value cdf =
        b.mul_scalar(b.add_scalar(b.chlo("erf", b.mul_scalar(x, std::numbers::sqrt2 / 2)), 1), 0.5);
    Value density =
        b.mul_scalar(b.exp(b.mul_scalar(square(b, x), -0.5)), 1 / std::sqrt(2 * std::numbers::pi));
    return b.multiply(grad, b.add(cdf, b.multiply(x, density)));
  }
  constexpr double kCubic = 0.044715;
  const double beta = std::sqrt(2 / std::numbers::pi);
  Value squared = square(b, x);
  Value inner = b.mul_scalar(b.add(x, b.mul_scalar(b.multiply(squared, x), kCubic)), beta);
  Value t = b.tanh(inner);
  Value inner_slope = b.mul_scalar(b.add_scalar(b.mul_scalar(squared, 3 * kCubic), 1), beta);
  Value left = b.mul_scalar(b.add_scalar(t, 1), 0.5);
  Value right =
      b.multiply(b.multiply(b.mul_scalar(x, 0.5), complement(b, square(b, t))), inner_slope);
  return b.multiply(grad, b.add(left, right));
}

Value silu_backward(Lowering& b, Value grad, Value x) {
  b.broadcast_pair(grad, x);
  Value s = sigmoid(b, x);
  Value slope = b.multiply(s, b.add_scalar(b.multiply(x, complement(b, s)), 1));
  if (is_complex(slope.dtype())) slope = b.complex(b.real(slope), b.negate(b.imag(slope)));
  return b.multiply(grad, slope);
}

Value mish_backward(Lowering& b, Value grad, Value x) {
  b.broadcast_pair(grad, x);
  Value t = b.tanh(b.log1p(b.exp(x)));
  Value bend = b.multiply(b.multiply(x, b.logistic(x)), complement(b, square(b, t)));
  return b.multiply(grad, b.add(t, bend));
}

// d/dx log sigmoid(x) = 1 - sigmoid(x), by exp(-|x|) so that it can't overflow.
Value log_sigmoid_backward(Lowering& b, Value grad, Value x, Ignored) {
  b.broadcast_pair(grad, x);
  Value z = b.exp(b.negate(b.abs(x)));
  Value tail = b.divide(z, b.add_scalar(z, 1));
  return b.multiply(grad, b.select(less(b, x, 0), complement(b, tail), tail));
}

std::pair<Value, Value> prelu_backward(Lowering& b, Value grad, Value x, Value weight) {
  broadcast_all(b, {&grad, &x, &weight});
  Value positive = greater(b, x, 0);
  return {b.select(positive, grad, b.multiply(weight, grad)),
          where_constant(b, positive, 0, b.multiply(x, grad))};
}

// Both shrinks have the gradient 1 outside [-lambd, lambd].
Value shrink_backward(Lowering& b, Value grad, Value x, Operand lambd) {
  b.broadcast_pair(grad, x);
  Value inside = b.compare(b.abs(x), b.number_like(lambd, x), Compare::kLe);
  return where_constant(b, inside, 0, grad);
}

}  // namespace

void register_activation_backward(OperatorTable& table) {
  constexpr RuleOptions kMath{.promotion = Promotion::kResult, .opmath = true};
  table.add("sigmoid_backward", sigmoid_backward, kMath);
  table.add("tanh_backward", tanh_backward, kMath);
  table.add("threshold_backward", threshold_backward, {.promotion = Promotion::kResult});
  table.add("leaky_relu_backward", leaky_relu_backward, kMath);
  table.add("hardtanh_backward", hardtanh_backward, kMath);
  table.add("hardsigmoid_backward", hardsigmoid_backward, kMath);
  table.add("hardswish_backward", hardswish_backward, kMath);
  table.add("elu_backward", elu_backward, kMath);
  table.add("softplus_backward", softplus_backward, kMath);
  table.add("gelu_backward", gelu_backward, kMath);
  table.add("silu_backward", silu_backward, kMath);
  table.add("mish_backward", mish_backward, kMath);
  table.add("log_sigmoid_backward", log_sigmoid_backward, kMath);
  table.add("_prelu_kernel_backward", prelu_backward, kMath);
  table.add("hardshrink_backward", shrink_backward, kMath);
  table.add("softshrink_backward", shrink_backward, kMath);
}

}  // namespace torch_tpu::lowering
