#pragma once

namespace torch_tpu::runtime {

// Whether programs compiled from now on may keep intermediate results in more precision than their
// type (xla_allow_excess_precision). Off: PyTorch rounds after each operation.
void set_allow_excess_precision(bool allow);
bool allow_excess_precision();

}  // namespace torch_tpu::runtime
