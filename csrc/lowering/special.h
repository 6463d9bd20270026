#pragma once

#include <span>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

class OperatorTable;

// The sum of c[n] T_n(t) for t in [-1, 1], by Clenshaw's recurrence.
Value chebyshev_series(Lowering& b, Value t, std::span<const double> coefficients);

Value lgamma(Lowering& b, Value x);
Value digamma(Lowering& b, Value x);
// exp(x^2) erfc(x)
Value erfcx(Lowering& b, Value x);
// The logarithm of the Gaussian distribution function.
Value log_ndtr(Lowering& b, Value x);

// Parts of the special family in files of their own.
void register_bessel(OperatorTable& table);
void register_incomplete_gamma(OperatorTable& table);
void register_orthogonal_polynomials(OperatorTable& table);

}  // namespace torch_tpu::lowering
