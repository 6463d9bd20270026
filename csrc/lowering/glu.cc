#include <array>

#include "lowering/activation.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

// a and b of glu(x) = a sigmoid(b): the halves of x along `dim`.
std::array<Value, 2> halves(Lowering& b, Value x, int64_t dim) {
  dim = Lowering::wrap_dim(dim, x.rank());
  TT_CHECK(x.rank() > 0, kInvalidArgument, "glu does not support 0-dimensional tensors");
  const int64_t size = x.dim(dim);
  TT_CHECK(size % 2 == 0, kInvalidArgument, "Halving dimension must be even, but dimension ", dim,
           " is size ", size);
  return {b.slice_dim(x, dim, 0, size / 2), b.slice_dim(x, dim, size / 2, size)};
}

Value joined(Lowering& b, Value first, Value second, int64_t dim) {
  const Value parts[] = {first, second};
  return b.concatenate(parts, Lowering::wrap_dim(dim, first.rank()));
}

Value glu(Lowering& b, Value x, int64_t dim) {
  auto [a, gate] = halves(b, x, dim);
  return b.multiply(a, b.logistic(gate));
}

Value glu_backward(Lowering& b, Value grad, Value x, int64_t dim) {
  auto [a, gate] = halves(b, x, dim);
  Value s = b.logistic(gate);
  Value slope = b.multiply(s, complement(b, s));
  return joined(b, b.multiply(s, grad), b.multiply(b.multiply(slope, a), grad), dim);
}

// d(a s) = s da + a s (1 - s) db
Value glu_jvp(Lowering& b, Value output, Value x, Value dx, int64_t dim) {
  auto [a, gate] = halves(b, x, dim);
  auto [da, dgate] = halves(b, dx, dim);
  Value s = b.logistic(gate);
  return b.add(b.multiply(s, da), b.multiply(b.multiply(output, complement(b, s)), dgate));
}

// The derivative of glu_backward's (g s, g a s') in the directions dg, da, db, where s' = s (1 - s)
// and s'' = s' (1 - 2 s).
Value glu_backward_jvp(Lowering& b, Ignored, Value g, Value x, Value dg, Value dx, int64_t dim) {
  auto [a, gate] = halves(b, x, dim);
  auto [da, dgate] = halves(b, dx, dim);
  Value s = b.logistic(gate);
  Value s1 = b.multiply(s, complement(b, s));
  Value s2 = b.multiply(s1, complement(b, b.mul_scalar(s, 2)));
  Value first = b.add(b.multiply(dg, s), b.multiply(b.multiply(g, s1), dgate));
  Value of_slope = b.multiply(s1, b.add(b.multiply(dg, a), b.multiply(g, da)));
  Value second = b.add(of_slope, b.multiply(b.multiply(b.multiply(g, a), s2), dgate));
  return joined(b, first, second, dim);
}

}  // namespace

void register_glu(OperatorTable& table) {
  constexpr RuleOptions kMath{.promotion = Promotion::kResult, .opmath = true};
  table.add("glu", glu, kMath);
  table.add("glu_backward", glu_backward, kMath);
  table.add("glu_jvp", glu_jvp, kMath);
  table.add("glu_backward_jvp", glu_backward_jvp, kMath);
}

}  // namespace torch_tpu::lowering
