#pragma once

#include <torch/library.h>

namespace torch_tpu::eager {

// Operators whose result's size depends on values: a bounded program gives padded results and
// counts, then the call waits for the counts and slices.
void register_data_dependent(torch::Library& library);

}  // namespace torch_tpu::eager
