#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <string_view>
#include <unordered_map>

namespace torch_tpu::eager {

// PyTorch's structured meta functions by overload ("add.Tensor"), with the operator's own schema.
// The definition is written at configuration from PyTorch's headers (tools/meta_functions.py).
const std::unordered_map<std::string_view, c10::KernelFunction>& meta_functions();

template <typename Signature>
c10::KernelFunction boxed(Signature* function) {
  return c10::KernelFunction::makeFromUnboxedRuntimeFunction(function);
}

}  // namespace torch_tpu::eager
