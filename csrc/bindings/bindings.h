#pragma once

#include <pybind11/pybind11.h>

namespace torch_tpu {

// Each adds its part to the module torch_tpu._C.
void bind_device(pybind11::module_& m);
void bind_programs(pybind11::module_& m);
void bind_compiler(pybind11::module_& m);
void bind_cache(pybind11::module_& m);

}  // namespace torch_tpu
