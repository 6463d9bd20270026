#include <string>

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"
#include "lowering/scan.h"
#include "lowering/search.h"

namespace torch_tpu::lowering {

namespace {

// Consecutive segments along `axis` of the data, one list of lengths per leading position.
struct Segments {
  Value lengths;  // [..., segments]
  Value id;  // [..., n] with trailing dimensions of the data: the segment of each element; past the
             // last segment it names none
  int64_t axis;
  Shape reduced;  // the data's shape with segments in the place of the axis

  Segments(Lowering& b, Value data, const std::optional<Value>& given,
           const std::optional<Value>& offsets, int64_t dim) {
    axis = Lowering::wrap_dim(dim, data.rank());
    Value ends;
    if (given) {
      lengths = *given;
      ends = inclusive_scan(b, lengths, axis, Combiner::kAdd);
    } else {
      TT_CHECK(offsets.has_value(), kInvalidArgument,
               "segment_reduce(): Either lengths or offsets must be defined.");
      const int64_t n = offsets->dim(axis) - 1;
      ends = b.slice_dim(*offsets, axis, 1, n + 1);
      lengths = b.subtract(ends, b.slice_dim(*offsets, axis, 0, n));
    }
    Shape positions(data.shape().begin(), data.shape().begin() + axis + 1);
    Value place = b.iota({ends.dtype(), positions}, axis);
    Value segment = insertion_points(b, ends, place, true);
    IntList leading = Lowering::all_dims(axis + 1);
    id = b.broadcast_in_dim(segment, data.shape(), leading);
    reduced = data.shape();
    reduced[static_cast<size_t>(axis)] = lengths.dim(axis);
  }

  Value spread_lengths(Lowering& b, DType dtype) const {
    return b.broadcast_in_dim(b.convert(lengths, dtype), reduced, Lowering::all_dims(axis + 1));
  }
  Value collect(Lowering& b, Value init, Value data, Combiner c) const {
    return scatter_elements(b, init, axis, id, data, c);
  }
  // The value of its segment for every element.
  Value back(Lowering& b, Value per_segment) const {
    return take_elements(b, per_segment, axis, readable_index(b, id, per_segment.dim(axis)));
  }
  Value covered(Lowering& b) const {
    return b.compare(id, b.constant_int(id.dtype(), lengths.dim(axis), id.shape()), Compare::kLt);
  }
};

Value initial_value(Lowering& b, const std::string& reduce, const std::optional<Operand>& initial,
                    const TensorType& type) {
  if (initial) return b.broadcast(b.number(*initial, type.dtype), type.shape);
  if (reduce == "max") return b.neg_inf(type.dtype, type.shape);
  if (reduce == "min") return b.pos_inf(type.dtype, type.shape);
  return b.constant(type.dtype, reduce == "prod" ? 1 : 0, type.shape);
}

Combiner combiner_of(const std::string& reduce) {
  if (reduce == "max") return Combiner::kMax;
  if (reduce == "min") return Combiner::kMin;
  if (reduce == "prod") return Combiner::kMul;
  TT_CHECK(reduce == "sum" || reduce == "mean", kInvalidArgument, "unsupported reduction ", reduce);
  return Combiner::kAdd;
}

Value segment_reduce(Lowering& b, Value data, std::string reduce, std::optional<Value> lengths,
                     std::optional<Value> indices, std::optional<Value> offsets, int64_t axis,
                     Ignored, std::optional<Operand> initial) {
  if (indices) b.not_implemented("segment_reduce by indices");
  Segments s(b, data, lengths, offsets, axis);
  Value init = initial_value(b, reduce, initial, {data.dtype(), s.reduced});
  Value out = s.collect(b, init, data, combiner_of(reduce));
  if (reduce != "mean") return out;
  Value n = s.spread_lengths(b, data.dtype());
  Value mean = b.divide(out, n);
  Value empty = b.compare(n, b.zeros_like(n), Compare::kEq);
  return b.select(empty, initial ? out : b.nan(out.dtype(), out.shape()), mean);
}

Value segment_reduce_backward(Lowering& b, Value grad, Value output, Value data, std::string reduce,
                              std::optional<Value> lengths, std::optional<Value> offsets,
                              int64_t axis, std::optional<Operand> initial) {
  Segments s(b, data, lengths, offsets, axis);
  Value zero = b.zeros_like(data);
  Value g;
  if (reduce == "max" || reduce == "min") {
    // Shared by all elements that reach the extremum.
    Value reached = b.or_(b.compare(data, s.back(b, output), Compare::kEq), b.is_nan(data));
    Value hits = b.convert(reached, data.dtype());
    Value count = s.collect(b, b.constant(data.dtype(), 0, s.reduced), hits, Combiner::kAdd);
    count = b.maximum(count, b.full_like(count, 1));
    g = b.select(reached, s.back(b, b.divide(grad, count)), zero);
  } else if (reduce == "mean") {
    Value n = s.spread_lengths(b, data.dtype());
    g = s.back(b, b.divide(grad, b.maximum(n, b.full_like(n, 1))));
  } else if (reduce == "prod") {
    // The product of the other elements: with one zero in the segment only the zero has any.
    Value is_zero = b.compare(data, zero, Compare::kEq);
    Value zeros = s.collect(b, b.constant(data.dtype(), 0, s.reduced),
                            b.convert(is_zero, data.dtype()), Combiner::kAdd);
    Value init = initial_value(b, reduce, initial, {data.dtype(), s.reduced});
    Value nonzero =
        s.collect(b, init, b.select(is_zero, b.full_like(data, 1), data), Combiner::kMul);
    Value others = b.select(is_zero, s.back(b, nonzero), b.divide(s.back(b, output), data));
    Value alone = b.compare(s.back(b, zeros), b.full_like(data, 1), Compare::kEq);
    others = b.select(b.and_(is_zero, b.not_(alone)), zero, others);
    g = b.multiply(s.back(b, grad), others);
  } else {
    g = s.back(b, grad);
  }
  return b.select(s.covered(b), g, zero);
}

}  // namespace

void register_segment_reduce(OperatorTable& table) {
  table.add("segment_reduce", segment_reduce, {.opmath = true});
  table.add("_segment_reduce_backward", segment_reduce_backward, {.opmath = true});
}

}  // namespace torch_tpu::lowering
