#pragma once

namespace torch_tpu::eager {

// Makes bfloat16 the calling thread's autocast dtype of the device, once: PyTorch keeps the dtype
// per thread and starts every thread with float16.
void ensure_autocast_default();

}  // namespace torch_tpu::eager
