#pragma once

#include <ATen/core/Tensor.h>

namespace torch_tpu::eager {

// aten::copy_ where either side is on the device: host to device, device to host, between devices,
// or on one device as one program.
at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking);

// A CPU tensor over the device memory of `tensor` (CPU plugins), valid while `tensor` is and until
// it is written to; or a copy of it, dense. Conjugate and negative bits are not applied.
at::Tensor host_view(const at::Tensor& tensor);

}  // namespace torch_tpu::eager
