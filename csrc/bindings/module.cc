#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"

PYBIND11_MODULE(_C, m) {
  torch_tpu::bind_device(m);
  torch_tpu::bind_programs(m);
  torch_tpu::bind_compiler(m);
  torch_tpu::bind_cache(m);
}
