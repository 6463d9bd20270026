#pragma once

namespace torch_tpu::eager {

// The calling thread's current device.
int current_device();
void set_current_device(int index);

}  // namespace torch_tpu::eager
