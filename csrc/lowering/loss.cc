#include "lowering/loss.h"

#include "lowering/activation.h"
#include "lowering/families.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

Value reduce_loss(Lowering& b, Value losses, int64_t reduction) {
  const IntList dims = Lowering::all_dims(losses.rank());
  switch (static_cast<Reduction>(reduction)) {
    case Reduction::kNone:
      return losses;
    case Reduction::kMean:
      return b.mean(losses, dims);
    case Reduction::kSum:
      return b.sum(losses, dims);
  }
  fail(ErrorKind::kInvalidArgument, reduction, " is not a valid value for reduction");
}

Value unreduced_grad(Lowering& b, Value grad, int64_t reduction, int64_t n) {
  if (static_cast<Reduction>(reduction) != Reduction::kMean) return grad;
  return b.bdiv(grad, b.constant(grad.dtype(), static_cast<double>(n)));
}

namespace {

// --- differences

Value mse_loss(Lowering& b, Value x, Value target, int64_t reduction) {
  return reduce_loss(b, square(b, b.bsub(x, target)), reduction);
}

Value mse_loss_backward(Lowering& b, Value grad, Value x, Value target, int64_t reduction) {
  Value difference = b.bsub(x, target);
  Value scale = b.mul_scalar(unreduced_grad(b, grad, reduction, difference.numel()), 2);
  return b.bmul(difference, scale);
}

// Quadratic below beta: z^2 / (2 beta), then z - beta / 2.
Value smooth_l1_loss(Lowering& b, Value x, Value target, int64_t reduction, Operand beta) {
  Value z = b.abs(b.bsub(x, target));
  Value limit = b.number_like(beta, z);
  Value near = b.divide(b.mul_scalar(square(b, z), 0.5), limit);
  Value far = b.subtract(z, b.mul_scalar(limit, 0.5));
  return reduce_loss(b, b.select(b.compare(z, limit, Compare::kLt), near, far), reduction);
}

Value smooth_l1_loss_backward(Lowering& b, Value grad, Value x, Value target, int64_t reduction,
                              Operand beta) {
  Value d = b.bsub(x, target);
  Value limit = b.number_like(beta, d);
  Value near = b.compare(b.abs(d), limit, Compare::kLt);
  Value slope = b.select(near, b.divide(d, limit), signum(b, d));
  return b.bmul(slope, unreduced_grad(b, grad, reduction, d.numel()));
}

// Quadratic up to delta: z^2 / 2, then delta (z - delta / 2).
Value huber_loss(Lowering& b, Value x, Value target, int64_t reduction, Operand delta) {
  Value z = b.abs(b.bsub(x, target));
  Value limit = b.number_like(delta, z);
  Value near = b.mul_scalar(square(b, z), 0.5);
  Value far = b.multiply(limit, b.subtract(z, b.mul_scalar(limit, 0.5)));
  return reduce_loss(b, b.select(b.compare(z, limit, Compare::kLe), near, far), reduction);
}

Value huber_loss_backward(Lowering& b, Value grad, Value x, Value target, int64_t reduction,
                          Operand delta) {
  Value d = b.bsub(x, target);
  Value limit = b.number_like(delta, d);
  Value slope = b.minimum(b.maximum(d, b.negate(limit)), limit);
  return b.bmul(slope, unreduced_grad(b, grad, reduction, d.numel()));
}

// --- probabilities

Value weighted(Lowering& b, Value losses, const std::optional<Value>& weight) {
  return weight ? b.bmul(losses, *weight) : losses;
}

// Logarithms are cut at -100, as PyTorch does, so that a certain wrong prediction has a finite
// loss.
Value binary_cross_entropy(Lowering& b, Value x, Value target, std::optional<Value> weight,
                           int64_t reduction) {
  b.broadcast_pair(x, target);
  Value floor = b.full_like(x, -100);
  Value log_x = b.maximum(b.log(x), floor);
  Value log_rest = b.maximum(b.log1p(b.negate(x)), floor);
  Value losses =
      b.subtract(b.multiply(b.add_scalar(target, -1), log_rest), b.multiply(target, log_x));
  return reduce_loss(b, weighted(b, losses, weight), reduction);
}

Value binary_cross_entropy_backward(Lowering& b, Value grad, Value x, Value target,
                                    std::optional<Value> weight, int64_t reduction) {
  b.broadcast_pair(x, target);
  Value spread = b.maximum(b.multiply(complement(b, x), x), b.full_like(x, 1e-12));
  Value slope = b.divide(b.subtract(x, target), spread);
  return b.bmul(weighted(b, slope, weight), unreduced_grad(b, grad, reduction, x.numel()));
}

// Half types round after every operation, as PyTorch's composite does.
Value binary_cross_entropy_with_logits(Lowering& b, Value x, Value target,
                                       std::optional<Value> weight, std::optional<Value> pos_weight,
                                       int64_t reduction) {
  b.broadcast_pair(x, target);
  const DType dtype = x.dtype();
  Value log_p = b.convert(log_sigmoid(b, b.convert(x, opmath(dtype))), dtype);
  if (pos_weight)
    log_p = b.bmul(b.add_scalar(b.bmul(b.add_scalar(*pos_weight, -1), target), 1), log_p);
  Value losses = weighted(b, b.bsub(b.multiply(complement(b, target), x), log_p), weight);
  return reduce_loss(b, b.convert(losses, opmath(dtype)), reduction);
}

// The same: exp overflows where PyTorch's does.
Value soft_margin_loss(Lowering& b, Value x, Value target, int64_t reduction) {
  Value losses = b.log1p(b.exp(b.negate(b.bmul(target, x))));
  return reduce_loss(b, b.convert(losses, opmath(losses.dtype())), reduction);
}

Value soft_margin_loss_backward(Lowering& b, Value grad, Value x, Value target, int64_t reduction) {
  b.broadcast_pair(x, target);
  Value slope = b.negate(b.multiply(target, b.logistic(b.negate(b.multiply(target, x)))));
  return b.bmul(slope, unreduced_grad(b, grad, reduction, x.numel()));
}

}  // namespace

void register_loss(OperatorTable& table) {
  constexpr RuleOptions kMath{.promotion = Promotion::kResult, .opmath = true};
  table.add("mse_loss", mse_loss, kMath);
  table.add("mse_loss_backward", mse_loss_backward, kMath);
  table.add("smooth_l1_loss", smooth_l1_loss, kMath);
  table.add("smooth_l1_loss_backward", smooth_l1_loss_backward, kMath);
  table.add("huber_loss", huber_loss, kMath);
  table.add("huber_loss_backward", huber_loss_backward, kMath);
  table.add("binary_cross_entropy", binary_cross_entropy, kMath);
  table.add("binary_cross_entropy_backward", binary_cross_entropy_backward, kMath);
  table.add("binary_cross_entropy_with_logits", binary_cross_entropy_with_logits,
            {.promotion = Promotion::kResult});
  table.add("soft_margin_loss", soft_margin_loss, {.promotion = Promotion::kResult});
  table.add("soft_margin_loss_backward", soft_margin_loss_backward, kMath);

  register_nll_loss(table);
  register_margin_loss(table);
  register_ctc_loss(table);
}

}  // namespace torch_tpu::lowering
