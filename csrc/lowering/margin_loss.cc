#include "lowering/loss.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

constexpr int64_t kClasses[] = {1};

Value as_rows(Lowering& b, Value x) {
  if (x.rank() == 2) return x;
  return b.reshape(x, {1, x.numel()});
}

// A gradient of the (possibly reduced) loss of every row, as [N, 1].
Value row_grad(Lowering& b, Value grad, int64_t reduction, int64_t rows) {
  grad = unreduced_grad(b, grad, reduction, rows);
  if (static_cast<Reduction>(reduction) != Reduction::kNone)
    grad = b.broadcast(b.reshape(grad, {1}), {rows});
  return b.reshape(grad, {rows, 1});
}

// --- multi_margin_loss: sum over the other classes of max(0, margin - x[target] + x[c])^p / C

struct MultiMargin {
  Value is_target;  // [N, C]
  Value excess;     // margin - x[target] + x, 0 where it isn't positive and at the target
  Value weight;     // [N, 1]: of the target's class
};

MultiMargin multi_margin(Lowering& b, Value x, Value target, const Operand& margin,
                         const std::optional<Value>& weight) {
  target = b.reshape(target, {x.dim(0), 1});
  Value is_target = b.bcompare(b.iota_like(x, target.dtype(), 1), target, Compare::kEq);
  Value of_target = b.sum(where_constant(b, is_target, x, 0), kClasses, true);
  Value excess = b.badd(b.bsub(x, of_target), b.number_like(margin, x));
  excess = where_constant(b, is_target, 0, b.maximum(excess, b.zeros_like(excess)));
  Value w = b.full({x.dtype(), {x.dim(0), 1}}, 1);
  if (weight) {
    Value all = b.broadcast(*weight, x.shape());
    w = b.sum(where_constant(b, is_target, all, 0), kClasses, true);
  }
  return {is_target, excess, w};
}

Value multi_margin_loss(Lowering& b, Value x, Value target, Scalar p, Operand margin,
                        std::optional<Value> weight, int64_t reduction) {
  Value rows = as_rows(b, x);
  MultiMargin m = multi_margin(b, rows, target, margin, weight);
  Value powered = b.bmul(power_constant(b, m.excess, p), m.weight);
  Value losses =
      b.bdiv(b.sum(powered, kClasses), b.constant(x.dtype(), static_cast<double>(rows.dim(1))));
  return b.reshape(reduce_loss(b, losses, reduction), b.out().shape);
}

Value multi_margin_loss_backward(Lowering& b, Value grad, Value x, Value target, Scalar p,
                                 Operand margin, std::optional<Value> weight, int64_t reduction) {
  Value rows = as_rows(b, x);
  MultiMargin m = multi_margin(b, rows, target, margin, weight);
  Value positive = greater(b, m.excess, 0);
  Value slope = p.to_double() == 1 ? b.full_like(rows, 1) : b.mul_scalar(m.excess, 2);
  slope = b.bmul(where_constant(b, positive, slope, 0), m.weight);
  slope = b.bdiv(slope, b.constant(x.dtype(), static_cast<double>(rows.dim(1))));
  Value pull = b.broadcast(b.negate(b.sum(slope, kClasses, true)), rows.shape());
  slope = b.select(m.is_target, pull, slope);
  return b.reshape(b.bmul(slope, row_grad(b, grad, reduction, rows.dim(0))), x.shape());
}

// --- multilabel_margin_loss: sum over targets t and other classes c of max(0, 1 - x[t] + x[c]) /
// C; the targets of a row end at the first -1

struct MultiLabel {
  Value hit;        // [N, K, C]: the k-th target of the row is class c
  Value is_target;  // [N, C] pred
};

MultiLabel multi_label(Lowering& b, Value target) {
  const int64_t n = target.dim(0);
  const int64_t classes = target.dim(1);
  Value position = b.iota_like(target, target.dtype(), 1);
  Value end = b.constant_int(target.dtype(), classes, target.shape());
  Value first_end = b.reduce_min(b.select(less(b, target, 0), position, end), kClasses, true);
  Value listed = b.bcompare(position, first_end, Compare::kLt);
  const Shape cube = {n, classes, classes};
  const int64_t outer[] = {0, 1};
  Value wanted = b.broadcast_in_dim(target, cube, outer);
  Value hit = b.compare(wanted, b.iota({target.dtype(), cube}, 2), Compare::kEq);
  hit = b.and_(hit, b.broadcast_in_dim(listed, cube, outer));
  return {hit, b.any(hit, kClasses)};
}

// 1 - x[t_k] + x[c], 0 where it isn't positive, where k is no target or c is one: [N, K, C].
Value label_excess(Lowering& b, Value x, const MultiLabel& labels, Value is_target) {
  const Shape& cube = labels.hit.shape();
  const int64_t by_class[] = {0, 2};
  const int64_t by_target[] = {0, 1};
  const int64_t last[] = {2};
  Value every = b.broadcast_in_dim(x, cube, by_class);
  Value of_target = b.sum(where_constant(b, labels.hit, every, 0), last);
  Value excess = b.add_scalar(b.subtract(every, b.broadcast_in_dim(of_target, cube, by_target)), 1);
  Value counts = b.and_(b.broadcast_in_dim(b.any(labels.hit, last), cube, by_target),
                        b.not_(b.broadcast_in_dim(is_target, cube, by_class)));
  return where_constant(b, b.and_(counts, greater(b, excess, 0)), excess, 0);
}

std::pair<Value, Value> multilabel_margin_loss_forward(Lowering& b, Value x, Value target,
                                                       int64_t reduction) {
  Value rows = as_rows(b, x);
  MultiLabel labels = multi_label(b, as_rows(b, target));
  Value excess = label_excess(b, rows, labels, labels.is_target);
  const int64_t pairs[] = {1, 2};
  Value losses =
      b.bdiv(b.sum(excess, pairs), b.constant(x.dtype(), static_cast<double>(rows.dim(1))));
  return {b.reshape(reduce_loss(b, losses, reduction), b.out(0).shape),
          b.reshape(b.convert(labels.is_target, x.dtype()), b.out(1).shape)};
}

Value multilabel_margin_loss_backward(Lowering& b, Value grad, Value x, Value target,
                                      int64_t reduction, Value is_target) {
  Value rows = as_rows(b, x);
  MultiLabel labels = multi_label(b, as_rows(b, target));
  Value excess = label_excess(b, rows, labels, b.convert(as_rows(b, is_target), DType::kPred));
  Value active = b.convert(greater(b, excess, 0), x.dtype());
  const int64_t last[] = {2};
  const int64_t by_target[] = {0, 1};
  Value pulls = b.broadcast_in_dim(b.sum(active, last), labels.hit.shape(), by_target);
  Value slope =
      b.subtract(b.sum(active, kClasses), b.sum(where_constant(b, labels.hit, pulls, 0), kClasses));
  slope = b.bdiv(slope, b.constant(x.dtype(), static_cast<double>(rows.dim(1))));
  return b.reshape(b.bmul(slope, row_grad(b, grad, reduction, rows.dim(0))), x.shape());
}

}  // namespace

void register_margin_loss(OperatorTable& table) {
  constexpr RuleOptions kMath{.opmath = true};
  table.add("multi_margin_loss", multi_margin_loss, kMath);
  table.add("multi_margin_loss_backward", multi_margin_loss_backward, kMath);
  table.add("multilabel_margin_loss_forward", multilabel_margin_loss_forward, kMath);
  table.add("multilabel_margin_loss_backward", multilabel_margin_loss_backward, kMath);
}

}  // namespace torch_tpu::lowering
