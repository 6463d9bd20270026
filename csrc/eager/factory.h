#pragma once

#include <ATen/core/Tensor.h>

namespace torch_tpu::eager {

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format);
at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory);
at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking);
at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst);
at::Scalar local_scalar_dense(const at::Tensor& self);
bool equal(const at::Tensor& self, const at::Tensor& other);
// Whether `module.to` may swap the data of one tensor for the other's and keep its identity: dense
// strided tensors of any devices, as PyTorch decides between CPU and CUDA.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from);
const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef sizes,
                          std::optional<at::MemoryFormat> format);

}  // namespace torch_tpu::eager
