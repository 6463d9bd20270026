#include <algorithm>
#include <limits>

#include "lowering/loops.h"
#include "lowering/loss.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

// Connectionist temporal classification (Graves et al. 2006, section 4.1), in log space. A target
// of L labels becomes S = 2 L + 1 states, blanks between and around the labels; alpha[n, t, s] is
// the log probability of all paths that are in state s at time t, beta the same from the end.

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Problem {
  int64_t time, batch, classes, states;
  Value labels;    // [N, S] class of each state
  Value skip;      // [N, S] may be entered from two states before: another label than that one
  Value log_prob;  // [T, N, S]
  Value state;     // [N, S] 0, 1, ...
  Value last;      // [N, S] 2 * target length: the final state
  Value length;    // [N, S] input length
};

// targets [N, L], or the targets of all samples one after the other; padded to [N, L] with blanks.
Value padded_targets(Lowering& b, Value targets, const IntList& lengths, int64_t blank) {
  const int64_t longest = lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  if (targets.rank() == 2) return b.slice_dim(targets, 1, 0, longest);
  Value filler = b.constant_int(targets.dtype(), blank);
  Values rows;
  int64_t offset = 0;
  for (int64_t n : lengths) {
    const int64_t low[] = {0};
    const int64_t high[] = {longest - n};
    rows.push_back(
        b.unsqueeze(b.pad(b.slice_dim(targets, 0, offset, offset + n), filler, low, high), 0));
    offset += n;
  }
  return b.concatenate(rows, 0);
}

Value per_sample(Lowering& b, const IntList& values, const Shape& shape) {
  const int64_t rows[] = {0};
  return b.broadcast_in_dim(b.constant_list(DType::kS64, values), shape, rows);
}

// x[:, s - by] with `fill` before the first state; by < 0 looks ahead.
Value shifted(Lowering& b, Value x, int64_t by, Value fill) {
  const int64_t low[] = {0, by};
  const int64_t high[] = {0, -by};
  return b.pad(x, fill, low, high);
}

Problem make_problem(Lowering& b, Value log_probs, Value targets, const IntList& input_lengths,
                     const IntList& target_lengths, int64_t blank) {
  Problem p{};
  p.time = log_probs.dim(0);
  p.batch = log_probs.dim(1);
  p.classes = log_probs.dim(2);
  for (int64_t n : input_lengths) {
    TT_CHECK(n <= p.time, kInvalidArgument, "Expected input_lengths to have value at most ", p.time,
             ", but got value ", n);
  }
  Value labels = b.convert(padded_targets(b, targets, target_lengths, blank), DType::kS64);
  p.states = 2 * labels.dim(1) + 1;
  const int64_t low[] = {0, 1};
  const int64_t high[] = {0, 1};
  const int64_t between[] = {0, 1};
  Value blank_value = b.constant_int(DType::kS64, blank);
  p.labels = labels.dim(1) == 0 ? b.constant_int(DType::kS64, blank, {p.batch, 1})
                                : b.pad(labels, blank_value, low, high, between);
  p.state = b.iota_like(p.labels, DType::kS64, 1);
  Value two_before = p.states > 2 ? shifted(b, p.labels, 2, blank_value) : p.labels;
  p.skip = b.and_(greater_equal(b, p.state, 2), b.compare(p.labels, two_before, Compare::kNe));
  IntList last;
  for (int64_t n : target_lengths) last.push_back(2 * n);
  p.last = per_sample(b, last, p.labels.shape());
  p.length = per_sample(b, input_lengths, p.labels.shape());

  stablehlo::GatherDims dims;
  dims.offset_dims = {0};
  dims.collapsed_slice_dims = {2};
  dims.operand_batching_dims = {1};
  dims.start_indices_batching_dims = {0};
  dims.start_index_map = {2};
  dims.index_vector_dim = 2;
  dims.slice_sizes = {p.time, 1, 1};
  p.log_prob = b.gather(log_probs, b.unsqueeze(p.labels, 2), dims);
  return p;
}

Value log_sum_exp(Lowering& b, std::initializer_list<Value> terms) {
  Value max = *terms.begin();
  for (Value t : terms) max = b.maximum(max, t);
  max = where_constant(b, equals(b, max, -kInf), 0, max);
  Value sum = b.zeros_like(max);
  for (Value t : terms) sum = b.add(sum, b.exp(b.subtract(t, max)));
  return b.add(b.log(sum), max);
}

Value row(Lowering& b, const Problem& p, Value t) {
  Value zero = b.constant_int(DType::kS32, 0);
  const Value start[] = {t, zero, zero};
  const int64_t sizes[] = {1, p.batch, p.states};
  return b.reshape(b.dynamic_slice(p.log_prob, start, sizes), {p.batch, p.states});
}

Value store_row(Lowering& b, const Problem& p, Value all, Value here, Value t) {
  Value zero = b.constant_int(DType::kS32, 0);
  const Value start[] = {t, zero, zero};
  return b.dynamic_update_slice(all, b.reshape(here, {1, p.batch, p.states}), start);
}

// [T, N, S]
Value forward_paths(Lowering& b, const Problem& p) {
  Value fill = b.constant(p.log_prob.dtype(), -kInf);
  Value first_states = b.and_(less(b, p.state, 2), b.compare(p.state, p.last, Compare::kLe));
  Value first = where_constant(b, first_states, row(b, p, b.constant_int(DType::kS32, 0)), -kInf);
  Value all = store_row(b, p, b.full({first.dtype(), {p.time, p.batch, p.states}}, -kInf), first,
                        b.constant_int(DType::kS32, 0));
  return for_loop(
      b, b.constant_int(DType::kS32, 1), b.constant_int(DType::kS32, p.time), {first, all},
      [&](Value t, std::span<const Value> s) -> Values {
        Value one_before = p.states > 1 ? shifted(b, s[0], 1, fill) : b.full_like(s[0], -kInf);
        Value two_before = p.states > 2 ? shifted(b, s[0], 2, fill) : b.full_like(s[0], -kInf);
        two_before = where_constant(b, p.skip, two_before, -kInf);
        Value here = b.add(log_sum_exp(b, {s[0], one_before, two_before}), row(b, p, t));
        return {here, store_row(b, p, s[1], here, t)};
      })[1];
}

// [T, N, S]; every sample starts at its own last time step.
Value backward_paths(Lowering& b, const Problem& p) {
  Value fill = b.constant(p.log_prob.dtype(), -kInf);
  Value end_state = b.or_(b.compare(p.state, p.last, Compare::kEq),
                          b.compare(p.state, b.add_scalar(p.last, -1), Compare::kEq));
  Value none = b.full({fill.dtype(), {p.batch, p.states}}, -kInf);
  Value all = b.full({fill.dtype(), {p.time, p.batch, p.states}}, -kInf);
  return for_loop(b, p.time, {none, all}, [&](Value i, std::span<const Value> s) -> Values {
    Value t = b.subtract(b.constant_int(DType::kS32, p.time - 1), i);
    Value emission = row(b, p, t);
    Value one_after = p.states > 1 ? shifted(b, s[0], -1, fill) : none;
    Value two_after =
        p.states > 2 ? shifted(b, where_constant(b, p.skip, s[0], -kInf), -2, fill) : none;
    Value inner = b.add(log_sum_exp(b, {s[0], one_after, two_after}), emission);
    Value steps_left = b.subtract(b.add_scalar(p.length, -1),
                                  b.broadcast(b.convert(t, DType::kS64), p.length.shape()));
    Value start = where_constant(b, end_state, emission, -kInf);
    Value here =
        b.select(equals(b, steps_left, 0), start, b.select(less(b, steps_left, 0), none, inner));
    return {here, store_row(b, p, s[1], here, t)};
  })[1];
}

// log_probs [T, N, C] (or [T, C]) -> loss [N], log_alpha [N, T, S]
std::pair<Value, Value> ctc_loss(Lowering& b, Value log_probs, Value targets, IntList input_lengths,
                                 IntList target_lengths, int64_t blank, bool zero_infinity) {
  if (log_probs.rank() == 2) log_probs = b.unsqueeze(log_probs, 1);
  const Problem p = make_problem(b, log_probs, targets, input_lengths, target_lengths, blank);
  Value alpha = b.permute(forward_paths(b, p), {1, 0, 2});
  // alpha at the last time step and the last two states of every sample
  Value time = b.iota({DType::kS64, {p.batch, p.time, p.states}}, 1);
  Value state = b.iota({DType::kS64, {p.batch, p.time, p.states}}, 2);
  Value last = per_sample(b, target_lengths, time.shape());
  last = b.add(last, last);
  Value end_time =
      b.compare(time, b.add_scalar(per_sample(b, input_lengths, time.shape()), -1), Compare::kEq);
  Value end_state = b.or_(b.compare(state, last, Compare::kEq),
                          b.compare(state, b.add_scalar(last, -1), Compare::kEq));
  Value ends = where_constant(b, b.and_(end_time, end_state), alpha, -kInf);
  const int64_t inner[] = {1, 2};
  Value max = b.reduce_max(ends, inner, true);
  max = where_constant(b, equals(b, max, -kInf), 0, max);
  Value sum = b.sum(b.exp(b.bsub(ends, max)), inner);
  Value loss = b.negate(b.add(b.log(sum), b.reshape(max, {p.batch})));
  // No time at all: certain for an empty target, impossible otherwise.
  IntList empty;
  for (size_t i = 0; i < input_lengths.size(); ++i) {
    empty.push_back(input_lengths[i] != 0 ? 0 : target_lengths[i] == 0 ? 1 : 2);
  }
  Value without_time = b.constant_list(DType::kS64, empty);
  loss = where_constant(b, equals(b, without_time, 1), 0, loss);
  if (zero_infinity) loss = where_constant(b, equals(b, loss, kInf), 0, loss);
  return {b.reshape(loss, b.out(0).shape), b.reshape(alpha, b.out(1).shape)};
}

// exp(log_prob) - (probability of being in a state of the class, given the target), times grad.
Value ctc_loss_backward(Lowering& b, Value grad, Value log_probs, Value targets,
                        IntList input_lengths, IntList target_lengths, Value loss, Value log_alpha,
                        int64_t blank, bool zero_infinity) {
  const Shape shape = log_probs.shape();
  if (log_probs.rank() == 2) log_probs = b.unsqueeze(log_probs, 1);
  const Problem p = make_problem(b, log_probs, targets, input_lengths, target_lengths, blank);
  const Shape paths = {p.time, p.batch, p.states};
  Value alpha = b.permute(b.reshape(log_alpha, {p.batch, p.time, p.states}), {1, 0, 2});
  Value beta = backward_paths(b, p);
  const int64_t samples[] = {1};
  Value flat_loss = b.reshape(loss, {p.batch});
  Value joint = b.subtract(b.add(alpha, beta), p.log_prob);
  joint = b.exp(b.add(joint, b.broadcast_in_dim(flat_loss, paths, samples)));
  const int64_t by_state[] = {1, 2};
  Value reachable = b.broadcast_in_dim(b.compare(p.state, p.last, Compare::kLe), paths, by_state);
  Value in_time = b.compare(b.iota({DType::kS64, paths}, 0),
                            b.broadcast_in_dim(p.length, paths, by_state), Compare::kLt);
  joint = where_constant(b, b.and_(reachable, in_time), joint, 0);

  const Shape one_hot_shape = {p.batch, p.states, p.classes};
  const int64_t outer[] = {0, 1};
  Value one_hot = b.compare(b.broadcast_in_dim(p.labels, one_hot_shape, outer),
                            b.iota({DType::kS64, one_hot_shape}, 2), Compare::kEq);
  stablehlo::DotDims dims;
  dims.lhs_batch = {1};
  dims.rhs_batch = {0};
  dims.lhs_contract = {2};
  dims.rhs_contract = {1};
  Value occupancy = b.dot(joint, b.convert(one_hot, joint.dtype()), dims);  // [N, T, C]
  occupancy = b.permute(occupancy, {1, 0, 2});

  Value result = b.subtract(b.exp(log_probs), occupancy);
  result =
      b.multiply(result, b.broadcast_in_dim(b.reshape(grad, {p.batch}), result.shape(), samples));
  Value lengths =
      b.broadcast_in_dim(b.constant_list(DType::kS64, input_lengths), result.shape(), samples);
  Value counts = b.compare(b.iota({DType::kS64, result.shape()}, 0), lengths, Compare::kLt);
  if (zero_infinity) {
    counts = b.and_(
        counts, b.not_(b.broadcast_in_dim(equals(b, flat_loss, kInf), result.shape(), samples)));
  }
  return b.reshape(where_constant(b, counts, result, 0), shape);
}

}  // namespace

void register_ctc_loss(OperatorTable& table) {
  table.add("_ctc_loss", ctc_loss);
  table.add("_ctc_loss_backward", ctc_loss_backward);
}

}  // namespace torch_tpu::lowering
