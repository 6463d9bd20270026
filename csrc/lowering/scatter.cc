#include <string>

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

enum class Reduce { kSum, kProd, kMean, kMax, kMin };

Reduce parse_reduce(const std::string& name) {
  if (name == "sum" || name == "add") return Reduce::kSum;
  if (name == "prod" || name == "multiply") return Reduce::kProd;
  if (name == "mean") return Reduce::kMean;
  if (name == "amax") return Reduce::kMax;
  if (name == "amin") return Reduce::kMin;
  fail(ErrorKind::kInvalidArgument,
       "reduce argument must be either sum, prod, mean, amax or amin, got ", name);
}

Combiner combiner_of(Reduce r) {
  switch (r) {
    case Reduce::kProd:
      return Combiner::kMul;
    case Reduce::kMax:
      return Combiner::kMax;
    case Reduce::kMin:
      return Combiner::kMin;
    default:
      return Combiner::kAdd;
  }
}

Value identity_of(Lowering& b, Reduce r, const TensorType& type) {
  switch (r) {
    case Reduce::kProd:
      return b.constant(type.dtype, 1, type.shape);
    case Reduce::kMax:
      return b.neg_inf(type.dtype, type.shape);
    case Reduce::kMin:
      return b.pos_inf(type.dtype, type.shape);
    default:
      return b.constant(type.dtype, 0, type.shape);
  }
}

// How updates get into the operand: scatter_elements or scatter_slices at a dimension and index.
using Scatter = Value (*)(Lowering&, Value, int64_t, Value, Value, Combiner);

struct Target {
  Scatter scatter;
  int64_t dim;
  Value index;
  Value into(Lowering& b, Value x, Value updates, Combiner c) const {
    return scatter(b, x, dim, index, updates, c);
  }
};

// x with updates reduced in; the mean's divisor counts x itself where include_self.
Value reduce_into(Lowering& b, Value x, const Target& at, Value updates, Reduce r,
                  bool include_self, DType type) {
  const DType result = x.dtype();
  x = b.convert(x, type);
  updates = b.convert(updates, x.dtype());
  if (!include_self) x = at.into(b, x, identity_of(b, r, updates.type()), Combiner::kOverwrite);
  Value out = at.into(b, x, updates, combiner_of(r));
  if (r == Reduce::kMean) {
    Value count = b.full_like(x, include_self ? 1 : 0);
    count = at.into(b, count, b.full_like(updates, 1), Combiner::kAdd);
    count = b.maximum(b.real(count), b.full_like(b.real(count), 1));
    if (is_int(result)) {
      // Division rounds down.
      Value quotient = b.divide(out, count);
      Value rest = b.subtract(out, b.multiply(quotient, count));
      Value below = b.compare(rest, b.zeros_like(rest), Compare::kLt);
      out = b.select(below, b.subtract(quotient, b.full_like(out, 1)), quotient);
    } else {
      out = b.divide(out, b.convert(count, out.dtype()));
    }
  }
  return b.convert(out, result);
}

struct Elements {
  Value x;
  Target at;
  Shape shape;
  // Scalars become vectors of one element.
  Elements(Lowering& b, Value self, int64_t dim, Value index)
      : x(at_least_1d(b, self)), shape(self.shape()) {
    at = {scatter_elements, Lowering::wrap_dim(dim, x.rank()), at_least_1d(b, index)};
  }
};

Value scatter_with(Lowering& b, Value x, int64_t dim, Value index, Value source,
                   Combiner combiner) {
  if (index.numel() == 0) return x;
  Elements e(b, x, dim, index);
  const DType type = combiner == Combiner::kOverwrite ? x.dtype() : opmath(x.dtype());
  Value out = e.at.into(b, b.convert(e.x, type), at_least_1d(b, b.convert(source, type)), combiner);
  return b.convert(b.reshape(out, e.shape), x.dtype());
}

Value scatter_src(Lowering& b, Value x, int64_t dim, Value index, Value source) {
  return scatter_with(b, x, dim, index, source, Combiner::kOverwrite);
}

Value filled(Lowering& b, Value index, const Operand& value, DType dtype) {
  return b.broadcast(b.number(value, dtype), index.shape());
}

Value scatter_value(Lowering& b, Value x, int64_t dim, Value index, Operand value) {
  return scatter_src(b, x, dim, index, filled(b, index, value, x.dtype()));
}

Value scatter_reduce(Lowering& b, Value x, int64_t dim, Value index, Value source,
                     std::string reduce) {
  return scatter_with(b, x, dim, index, source, combiner_of(parse_reduce(reduce)));
}

Value scatter_value_reduce(Lowering& b, Value x, int64_t dim, Value index, Operand value,
                           std::string reduce) {
  return scatter_reduce(b, x, dim, index, filled(b, index, value, x.dtype()), reduce);
}

Value scatter_add(Lowering& b, Value x, int64_t dim, Value index, Value source) {
  return scatter_with(b, x, dim, index, source, Combiner::kAdd);
}

Value scatter_reduce_two(Lowering& b, Value x, int64_t dim, Value index, Value source,
                         std::string reduce, bool include_self) {
  if (index.numel() == 0) return x;
  Elements e(b, x, dim, index);
  Value updates = corner(b, at_least_1d(b, source), e.at.index.shape());
  return b.reshape(
      reduce_into(b, e.x, e.at, updates, parse_reduce(reduce), include_self, opmath(x.dtype())),
      e.shape);
}

// --- whole slices along a dimension

struct Slices {
  Value x;
  Target at;
  Value updates;
  Shape shape;

  Slices(Lowering& b, Value self, int64_t dim, Value index, Value source, bool wrap)
      : x(at_least_1d(b, self)), shape(self.shape()) {
    TT_CHECK(index.rank() <= 1, kIndex, "index should have dimension 1 or 0 (got ", index.rank(),
             ")");
    dim = Lowering::wrap_dim(dim, x.rank());
    at = {scatter_slices, dim, writable_index(b, at_least_1d(b, index), x.dim(dim), wrap)};
    Shape expected = x.shape();
    expected[static_cast<size_t>(dim)] = at.index.numel();
    updates = source.rank() == 0 ? b.broadcast(source, expected) : source;
    if (updates.numel() == numel(expected)) updates = b.reshape(updates, expected);
  }
};

Value index_add(Lowering& b, Value x, int64_t dim, Value index, Value source, Operand alpha) {
  const DType type = opmath(x.dtype());
  source = b.convert(source, type);
  Slices s(b, b.convert(x, type), dim, index, b.bmul(source, b.number_like(alpha, source)), false);
  return b.reshape(s.at.into(b, s.x, s.updates, Combiner::kAdd), s.shape);
}

Value index_copy(Lowering& b, Value x, int64_t dim, Value index, Value source) {
  Slices s(b, x, dim, index, b.convert(source, x.dtype()), false);
  return b.reshape(s.at.into(b, s.x, s.updates, Combiner::kOverwrite), s.shape);
}

Value index_fill_tensor(Lowering& b, Value x, int64_t dim, Value index, Value value) {
  TT_CHECK(value.rank() == 0, kInvalidArgument,
           "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
           value.rank(), " dimension(s).");
  Slices s(b, x, dim, index, b.convert(value, x.dtype()), true);
  return b.reshape(s.at.into(b, s.x, s.updates, Combiner::kOverwrite), s.shape);
}

Value index_fill_number(Lowering& b, Value x, int64_t dim, Value index, Operand value) {
  return index_fill_tensor(b, x, dim, index, b.number(value, x.dtype()));
}

Value index_reduce(Lowering& b, Value x, int64_t dim, Value index, Value source, std::string reduce,
                   bool include_self) {
  Slices s(b, x, dim, index, source, false);
  const DType type = accumulation_type(b, x.dtype());
  return b.reshape(reduce_into(b, s.x, s.at, s.updates, parse_reduce(reduce), include_self, type),
                   s.shape);
}

}  // namespace

void register_scatter(OperatorTable& table) {
  register_histogram(table);
  register_segment_reduce(table);
  table.add("scatter.src", scatter_src);
  table.add("scatter.value", scatter_value);
  table.add("scatter.reduce", scatter_reduce);
  table.add("scatter.value_reduce", scatter_value_reduce);
  table.add("scatter_add", scatter_add);
  table.add("scatter_reduce.two", scatter_reduce_two);
  table.add("index_add", index_add);
  table.add("index_copy", index_copy);
  table.add("index_fill.int_Scalar", index_fill_number);
  table.add("index_fill.int_Tensor", index_fill_tensor);
  table.add("index_reduce", index_reduce);
}

}  // namespace torch_tpu::lowering
