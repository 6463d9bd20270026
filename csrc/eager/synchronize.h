#pragma once

namespace torch_tpu::eager {

// Waits until all work given to the device has finished. Failures of values that nobody has read
// yet stay with these values. Does nothing before the client is started.
void synchronize_device(int device);

}  // namespace torch_tpu::eager
