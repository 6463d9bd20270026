#include <cmath>

#include "lowering/normalisation.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

IntList all_but(int64_t dim, int64_t rank) {
  IntList dims = Lowering::all_dims(rank);
  dims.erase(dims.begin() + Lowering::wrap_dim(dim, rank));
  return dims;
}

// Salimans and Kingma, "Weight normalization" (2016): v * g / |v|, the norm over all dimensions but
// `dim`.
std::pair<Value, Value> weight_norm(Lowering& b, Value v, Value g, int64_t dim) {
  Value norm = b.sqrt(b.sum(b.multiply(v, v), all_but(dim, v.rank()), true));
  return {b.bmul(v, b.divide(b.reshape(b.convert(g, v.dtype()), norm.shape()), norm)), norm};
}

std::pair<Value, Value> weight_norm_backward(Lowering& b, Value grad, Value v, Value g, Value norm,
                                             int64_t dim) {
  const DType t = v.dtype();
  norm = b.convert(norm, t);
  Value scale = b.divide(b.reshape(b.convert(g, t), norm.shape()), norm);
  Value along = b.divide(b.sum(b.multiply(grad, v), all_but(dim, v.rank()), true), norm);
  Value grad_v = b.bmul(b.subtract(grad, b.bmul(v, b.divide(along, norm))), scale);
  return {grad_v, b.reshape(along, g.shape())};
}

// (sum |x|^p)^(1/p) over `dims`, for p >= 0.
Value vector_norm(Lowering& b, Value x, double p, const IntList& dims) {
  Value a = b.abs(x);
  if (p == 0) {
    return b.sum(b.convert(b.compare(a, b.zeros_like(a), Compare::kNe), a.dtype()), dims, true);
  }
  if (std::isinf(p)) return b.reduce_max(a, dims, true);
  if (p == 1) return b.sum(a, dims, true);
  if (p == 2) return b.sqrt(b.sum(b.multiply(a, a), dims, true));
  Value total = b.sum(b.power(a, b.full_like(a, p)), dims, true);
  return b.power(total, b.full_like(total, 1 / p));
}

// Slices along `dim` whose norm exceeds maxnorm are scaled down to it.
Value renorm(Lowering& b, Value x, Scalar p, int64_t dim, Operand maxnorm) {
  if (x.numel() == 0) return x;
  const IntList dims = all_but(dim, x.rank());
  Value norm = vector_norm(b, x, p.to_double(), dims);
  Value limit = b.number_like(maxnorm, norm);
  Value factor = b.select(b.compare(norm, limit, Compare::kGt),
                          b.divide(limit, b.add_scalar(norm, 1e-7)), b.full_like(norm, 1));
  if (is_complex(x.dtype())) factor = b.convert(factor, x.dtype());
  return b.bmul(x, factor);
}

}  // namespace

void register_weight_norm(OperatorTable& table) {
  const RuleOptions options{.opmath = true};
  table.add("_weight_norm_interface", weight_norm, options);
  table.add("_weight_norm_interface_backward", weight_norm_backward, options);
  table.add("renorm", renorm, options);
}

}  // namespace torch_tpu::lowering
