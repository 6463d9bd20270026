#include <cmath>

#include "lowering/factorisation.h"

namespace torch_tpu::lowering {

// Scaling and squaring of the Taylor polynomial, evaluated in blocks of four powers (Paterson &
// Stockmeyer 1973). The truncation error is below the rounding of the type for norms up to `theta`.
Value matrix_exp(Lowering& b, Value a) {
  if (a.numel() == 0) return a;
  const DType dtype = a.dtype();
  const DType real = real_of(dtype);
  const bool wide = real == DType::kF64;
  const int degree = wide ? 19 : 11;
  const double theta = wide ? 1.0 : 0.7;
  const int64_t n = a.dim(0);
  const Shape each{n, 1, 1};

  // Number of halvings that bring the 1-norm below theta.
  const int64_t columns[] = {1};
  const int64_t rest[] = {1, 2};
  Value norm = b.reduce_max(b.sum(b.abs(a), columns, true), rest, true);
  Value halvings = b.ceil(b.mul_scalar(b.log(b.mul_scalar(norm, 1 / theta)), 1 / std::log(2.0)));
  Value usable =
      b.and_(b.is_finite(halvings), b.compare(halvings, b.zeros_like(halvings), Compare::kGt));
  halvings = b.select(usable, halvings, b.zeros_like(halvings));
  Value scale = b.power(b.full({real, each}, 2), b.negate(halvings));
  Value x = b.bmul(a, b.convert(scale, dtype));

  Value eye = identity(b, dtype, a.shape());
  Value x2 = multiply_matrices(b, x, x);
  Value x3 = multiply_matrices(b, x2, x);
  Value x4 = multiply_matrices(b, x2, x2);
  const Value powers[] = {eye, x, x2, x3};
  Value sum;
  for (int block = degree / 4; block >= 0; --block) {
    Value part;
    for (int i = 0; i < 4; ++i) {
      Value term = b.mul_scalar(powers[i], 1 / std::tgamma(4 * block + i + 1));
      part = part.defined() ? b.add(part, term) : term;
    }
    sum = sum.defined() ? b.add(multiply_matrices(b, sum, x4), part) : part;
  }
  const int64_t all[] = {0, 1, 2};
  Value most = b.reduce_max(halvings, all);
  return b.while_loop(
      Values{b.constant(real, 0), sum},
      [&](std::span<const Value> s) { return Values{b.compare(s[0], most, Compare::kLt)}; },
      [&](std::span<const Value> s) {
        Value needed = b.compare(b.broadcast(s[0], each), halvings, Compare::kLt);
        Value squared = multiply_matrices(b, s[1], s[1]);
        return Values{b.add_scalar(s[0], 1), b.bselect(needed, squared, s[1])};
      })[1];
}

}  // namespace torch_tpu::lowering
