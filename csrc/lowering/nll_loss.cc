#include "lowering/loss.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::GatherDims;

// x[n, target[n]] for x [N, C]; a target out of range reads a neighbour and is masked by the
// caller.
Value pick_class(Lowering& b, Value x, Value target) {
  GatherDims dims;
  dims.collapsed_slice_dims = {1};
  dims.operand_batching_dims = {0};
  dims.start_indices_batching_dims = {0};
  dims.start_index_map = {1};
  dims.index_vector_dim = 1;
  dims.slice_sizes = {1, 1};
  return b.gather(x, b.unsqueeze(target, 1), dims);
}

// weight[target], any shape of targets.
Value class_weight(Lowering& b, Value weight, Value target) {
  GatherDims dims;
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = target.rank();
  dims.slice_sizes = {1};
  return b.gather(weight, b.unsqueeze(target, target.rank()), dims);
}

// True where the class index along dimension 1 of `like` is the target, and the target counts.
Value at_target(Lowering& b, Value like, Value target, int64_t ignore_index) {
  Value index = b.iota_like(like, target.dtype(), 1);
  Value wanted = b.broadcast(b.unsqueeze(target, 1), like.shape());
  Value counts =
      b.compare(wanted, b.constant_int(target.dtype(), ignore_index, like.shape()), Compare::kNe);
  return b.and_(b.compare(index, wanted, Compare::kEq), counts);
}

// log-probabilities of the targets, their weights and the positions that count -> (loss, total
// weight)
std::pair<Value, Value> weighted_loss(Lowering& b, Value picked, Value target,
                                      const std::optional<Value>& weight, int64_t reduction,
                                      int64_t ignore_index) {
  Value counts =
      b.compare(target, b.constant_int(target.dtype(), ignore_index, target.shape()), Compare::kNe);
  Value w = weight ? class_weight(b, *weight, target) : b.full_like(picked, 1);
  w = where_constant(b, counts, w, 0);
  Value losses = where_constant(b, counts, b.negate(b.multiply(picked, w)), 0);
  Value zero = b.constant(picked.dtype(), 0);
  if (static_cast<Reduction>(reduction) == Reduction::kNone) return {losses, zero};
  const IntList dims = Lowering::all_dims(picked.rank());
  Value total = b.sum(w, dims);
  Value loss = b.sum(losses, dims);
  if (static_cast<Reduction>(reduction) == Reduction::kMean) loss = b.divide(loss, total);
  return {loss, total};
}

// x [N, C] or [C], target [N] or []
std::pair<Value, Value> nll_loss_forward(Lowering& b, Value x, Value target,
                                         std::optional<Value> weight, int64_t reduction,
                                         int64_t ignore_index) {
  const bool batched = x.rank() > 1;
  Value rows = batched ? x : b.unsqueeze(x, 0);
  Value targets = b.reshape(b.convert(target, DType::kS64), {rows.dim(0)});
  Value picked = pick_class(b, rows, targets);
  auto [loss, total] = weighted_loss(b, picked, targets, weight, reduction, ignore_index);
  return {b.reshape(loss, b.out(0).shape), total};
}

// x [N, C, H, W], target [N, H, W]: few classes, many positions, so a masked sum rather than a
// gather.
std::pair<Value, Value> nll_loss2d_forward(Lowering& b, Value x, Value target,
                                           std::optional<Value> weight, int64_t reduction,
                                           int64_t ignore_index) {
  target = b.convert(target, DType::kS64);
  Value hit = at_target(b, x, target, ignore_index);
  const int64_t classes[] = {1};
  Value picked = b.sum(where_constant(b, hit, x, 0), classes);
  return weighted_loss(b, picked, target, weight, reduction, ignore_index);
}

// -grad * weight (over the total weight for a mean) at the target, 0 elsewhere.
Value nll_loss_backward(Lowering& b, Value grad, Value x, Value target, std::optional<Value> weight,
                        int64_t reduction, int64_t ignore_index, Value total_weight) {
  const bool batched = x.rank() > 1;
  Value rows = batched ? x : b.unsqueeze(x, 0);
  target = b.convert(target, DType::kS64);
  if (!batched) target = b.reshape(target, {1});
  Value hit = at_target(b, rows, target, ignore_index);
  Value scale = b.negate(grad);
  if (static_cast<Reduction>(reduction) == Reduction::kMean) scale = b.bdiv(scale, total_weight);
  if (static_cast<Reduction>(reduction) == Reduction::kNone) {
    scale = b.unsqueeze(b.reshape(scale, target.shape()), 1);
  }
  scale = b.broadcast(scale, rows.shape());
  if (weight) {
    const int64_t classes[] = {1};
    scale = b.multiply(scale, b.broadcast_in_dim(*weight, rows.shape(), classes));
  }
  return b.reshape(where_constant(b, hit, scale, 0), x.shape());
}

}  // namespace

void register_nll_loss(OperatorTable& table) {
  constexpr RuleOptions kMath{.opmath = true};
  table.add("nll_loss_forward", nll_loss_forward, kMath);
  table.add("nll_loss2d_forward", nll_loss2d_forward, kMath);
  table.add("nll_loss_backward", nll_loss_backward, kMath);
  table.add("nll_loss2d_backward", nll_loss_backward, kMath);
}

}  // namespace torch_tpu::lowering
