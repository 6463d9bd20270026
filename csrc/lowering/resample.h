#pragma once

namespace torch_tpu::lowering {

class OperatorTable;

void register_upsample(OperatorTable& table);
void register_grid_sampler(OperatorTable& table);

// Cubic convolution (Keys, 1981) for |x| <= 1 and 1 < |x| < 2, over any type with arithmetic.
template <typename T>
T cubic_inner(T x, T a) {
  return ((a + 2) * x - (a + 3)) * x * x + 1;
}
template <typename T>
T cubic_outer(T x, T a) {
  return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

}  // namespace torch_tpu::lowering
