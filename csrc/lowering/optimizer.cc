#include <functional>

#include "lowering/families.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

// Fused optimizer steps: the lists after the step, in schema order. Numbers that depend on the step
// count only are computed in float64 (1 - beta2 loses four digits in float32), tensors in their
// opmath type. With `found_inf` set nothing changes.

constexpr DType kNumber = DType::kF64;

using OptionalValue = std::optional<Value>;

// A learning rate given as a number or as a tensor.
Value as_number(Lowering& b, const Operand& x) { return b.number(x, kNumber); }
Value as_number(Lowering& b, Value x) { return b.convert(b.reshape(x, {}), kNumber); }

Value to_opmath(Lowering& b, Value x) { return b.convert(x, opmath(x.dtype())); }

// A 0-d float64 number as a tensor like `x`.
Value spread(Lowering& b, Value number, Value x) {
  return b.broadcast(b.convert(number, x.dtype()), x.shape());
}

bool is_zero(const Operand& x) { return x.constant() && x.constant()->to_double() == 0; }

// One step over all parameters: which lists come back, and which of their members change.
class Step {
 public:
  Step(Lowering& b, OptionalValue grad_scale, OptionalValue found_inf)
      : b_(b), grad_scale_(grad_scale) {
    if (found_inf) skip_ = equals(b, b.reshape(*found_inf, {}), 1);
  }

  // The member in its opmath type.
  Value read(const Values& list, size_t i) { return to_opmath(b_, list.at(i)); }

  void write(Values& list, size_t i, Value updated) {
    Value rounded = b_.convert(updated, list.at(i).dtype());
    list[i] = skip_ ? b_.select(*skip_, list[i], rounded) : rounded;
  }

  // The unscaled gradient, which is also stored; negated when maximizing.
  Value gradient(Values& grads, size_t i, bool maximize) {
    Value grad = read(grads, i);
    if (grad_scale_) {
      grad = b_.bdiv(grad, b_.convert(b_.reshape(*grad_scale_, {}), grad.dtype()));
      write(grads, i, grad);
    }
    return maximize ? b_.negate(grad) : grad;
  }

 private:
  Lowering& b_;
  OptionalValue grad_scale_;
  OptionalValue skip_;
};

Results joined(std::initializer_list<std::reference_wrapper<const Values>> lists) {
  Results out;
  for (const Values& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

Value add_weight_decay(Lowering& b, Value grad, Value param, const Operand& weight_decay) {
  if (is_zero(weight_decay)) return grad;
  return b.add(grad, b.multiply(param, b.number_like(weight_decay, param)));
}

// --- Adam (https://arxiv.org/abs/1412.6980) and AdamW (https://arxiv.org/abs/1711.05101)

template <bool Decoupled, typename LearningRate>
Results adam(Lowering& b, Values params, Values grads, Values averages, Values squares,
             Values max_squares, Values steps, LearningRate lr, Operand beta1, double beta2,
             Operand weight_decay, Operand eps, bool amsgrad, bool maximize,
             OptionalValue grad_scale, OptionalValue found_inf) {
  Step step(b, grad_scale, found_inf);
  Value rate = as_number(b, lr);
  Value one = b.constant(kNumber, 1);
  Value decay1 = as_number(b, beta1);
  Value decay2 =
      b.constant(kNumber, beta2);  // 1 - beta2 has no digits to spare for a float32 operand
  for (size_t i = 0; i < params.size(); ++i) {
    Value param = step.read(params, i);
    Value grad = step.gradient(grads, i, maximize);
    if (!Decoupled) {
      grad = add_weight_decay(b, grad, param, weight_decay);
    } else if (!is_zero(weight_decay)) {
      Value kept = b.subtract(one, b.multiply(rate, as_number(b, weight_decay)));
      param = b.multiply(param, spread(b, kept, param));
    }
    Value count = as_number(b, steps.at(i));
    Value correction1 = b.subtract(one, b.power(decay1, count));
    Value correction2 = b.sqrt(b.subtract(one, b.power(decay2, count)));

    Value average =
        lerp(b, step.read(averages, i), grad, b.convert(b.subtract(one, decay1), grad.dtype()));
    Value old_square = step.read(squares, i);
    Value fresh = b.multiply(b.multiply(grad, grad), spread(b, b.subtract(one, decay2), grad));
    Value squared = b.add(b.multiply(old_square, spread(b, decay2, grad)), fresh);
    Value size = squared;
    if (amsgrad) {
      size = b.maximum(step.read(max_squares, i), squared);
      step.write(max_squares, i, size);
    }
    Value root = b.bdiv(b.sqrt(size), b.convert(correction2, size.dtype()));
    Value denominator = b.add(root, b.number_like(eps, root));
    Value step_size = spread(b, b.divide(rate, correction1), param);
    step.write(params, i, b.subtract(param, b.divide(b.multiply(step_size, average), denominator)));
    step.write(averages, i, average);
    step.write(squares, i, squared);
  }
  return joined({params, grads, averages, squares, max_squares});
}

// --- stochastic gradient descent with momentum

template <typename LearningRate>
Results sgd(Lowering& b, Values params, Values grads, Values buffers, Operand weight_decay,
            Operand momentum, LearningRate lr, Operand dampening, bool nesterov, bool maximize,
            bool is_first_step, OptionalValue grad_scale, OptionalValue found_inf) {
  Step step(b, grad_scale, found_inf);
  Value rate = as_number(b, lr);
  for (size_t i = 0; i < params.size(); ++i) {
    Value param = step.read(params, i);
    Value grad = add_weight_decay(b, step.gradient(grads, i, maximize), param, weight_decay);
    if (!buffers.empty()) {
      Value factor = b.number_like(momentum, grad);
      Value buffer = grad;
      if (!is_first_step) {
        Value share = b.subtract(b.constant(kNumber, 1), as_number(b, dampening));
        buffer = b.add(b.multiply(step.read(buffers, i), factor),
                       b.multiply(grad, spread(b, share, grad)));
      }
      step.write(buffers, i, buffer);
      grad = nesterov ? b.add(grad, b.multiply(buffer, factor)) : buffer;
    }
    step.write(params, i, b.subtract(param, b.multiply(grad, spread(b, rate, param))));
  }
  return joined({params, grads, buffers});
}

// --- Adagrad (https://jmlr.org/papers/v12/duchi11a.html)

template <bool ReturnSteps, typename LearningRate>
Results adagrad(Lowering& b, Values params, Values grads, Values sums, Values steps,
                LearningRate lr, Operand lr_decay, Operand weight_decay, Operand eps, bool maximize,
                OptionalValue grad_scale, OptionalValue found_inf) {
  Step step(b, grad_scale, found_inf);
  Value rate = as_number(b, lr);
  Value decay = as_number(b, lr_decay);
  Value one = b.constant(kNumber, 1);
  for (size_t i = 0; i < params.size(); ++i) {
    Value param = step.read(params, i);
    Value grad = add_weight_decay(b, step.gradient(grads, i, maximize), param, weight_decay);
    Value past_steps = b.subtract(as_number(b, steps.at(i)), one);
    Value current_rate = b.divide(rate, b.add(one, b.multiply(past_steps, decay)));
    Value sum = b.add(step.read(sums, i), b.multiply(grad, grad));
    Value denominator = b.add(b.sqrt(sum), b.number_like(eps, sum));
    Value change = b.divide(b.multiply(grad, spread(b, current_rate, grad)), denominator);
    step.write(params, i, b.subtract(param, change));
    step.write(sums, i, sum);
  }
  Results out = joined({params, grads, sums});
  if (ReturnSteps) out.insert(out.end(), steps.begin(), steps.end());
  return out;
}

// --- gradient scaling

// Gradients times inv_scale; found_inf becomes 1 where any of them isn't finite.
Values unscale(Lowering& b, Values grads, Value found_inf, Value inv_scale) {
  Value bad = b.constant_int(DType::kPred, 0);
  for (Value& grad : grads) {
    Value wide = to_opmath(b, grad);
    bad = b.or_(bad, b.any(b.not_(b.is_finite(wide)), Lowering::all_dims(wide.rank())));
    Value scale = b.broadcast(b.convert(b.reshape(inv_scale, {}), wide.dtype()), wide.shape());
    grad = b.convert(b.multiply(wide, scale), grad.dtype());
  }
  grads.push_back(b.select(bad, b.full_like(found_inf, 1), found_inf));
  return grads;
}

// The scale shrinks after an infinity and grows after `interval` steps without one, while it is
// finite.
std::pair<Value, Value> update_scale(Lowering& b, Value scale, Value tracker, Value found_inf,
                                     Operand growth, Operand backoff, int64_t interval) {
  Value found = b.broadcast(b.reshape(b.convert(found_inf, DType::kPred), {}), scale.shape());
  Value found_tracker = b.broadcast(b.reshape(found, {}), tracker.shape());
  Value successes = b.add_scalar(tracker, 1);
  Value due_tracker = equals(b, successes, static_cast<double>(interval));
  Value due = b.broadcast(b.reshape(due_tracker, {}), scale.shape());
  Value grown = b.multiply(scale, b.number_like(growth, scale));
  Value kept = b.select(b.and_(due, b.is_finite(grown)), grown, scale);
  Value new_scale = b.select(found, b.multiply(scale, b.number_like(backoff, scale)), kept);
  return {new_scale, where_constant(b, b.or_(found_tracker, due_tracker), 0, successes)};
}

}  // namespace

void register_optimizer(OperatorTable& table) {
  table.add("_fused_adam", adam<false, Operand>);
  table.add("_fused_adam.tensor_lr", adam<false, Value>);
  table.add("_fused_adamw", adam<true, Operand>);
  table.add("_fused_adamw.tensor_lr", adam<true, Value>);
  table.add("_fused_sgd", sgd<Operand>);
  table.add("_fused_sgd.tensor_lr", sgd<Value>);
  table.add("_fused_adagrad", adagrad<true, Operand>);
  table.add("_fused_adagrad.tensor_lr", adagrad<false, Value>);
  table.add("_amp_foreach_non_finite_check_and_unscale", unscale);
  table.add("_amp_update_scale", update_scale);
}

}  // namespace torch_tpu::lowering
