#pragma once

#include <optional>

#include "lowering/lowering.h"

// Distributions that need more than a transformation of a fixed number of words.
namespace torch_tpu::lowering {

class OperatorTable;

Value poisson(Lowering& b, Value rate);
Value binomial(Lowering& b, Value count, Value prob);
Value standard_gamma(Lowering& b, Value alpha);
// Gamma variates normalised over the last dimension.
Value sample_dirichlet(Lowering& b, Value alpha);
// probs [n] or [m, n] -> int64 [k] or [m, k]; weights needn't be normalised.
Value multinomial(Lowering& b, Value probs, int64_t num_samples, bool replacement);

// Gradients of gamma and Dirichlet samples.
void register_sampler_gradients(OperatorTable& table);

}  // namespace torch_tpu::lowering
