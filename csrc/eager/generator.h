#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

namespace torch_tpu::eager {

// Random bits of the device are a function of this pair alone (Philox key and counter).
struct RandomState {
  uint64_t seed = 0;
  uint64_t offset = 0;
};

// Takes `blocks` counter blocks: returns the state before, and moves the generator's offset past
// them. Without a generator, the default one of the device. Thread-safe.
// Throws c10::Error for a generator of another device.
RandomState reserve_random(const std::optional<at::Generator>& generator, int device,
                           int64_t blocks);

// The device's default generator; made at first use, which doesn't start the client.
const at::Generator& default_generator(int device);
at::Generator make_generator(int device);

}  // namespace torch_tpu::eager
