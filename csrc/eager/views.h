#pragma once

#include <torch/library.h>

namespace torch_tpu::eager {

// View operators: PyTorch's own metadata kernels, which run nothing.
void register_views(torch::Library& library);

}  // namespace torch_tpu::eager
