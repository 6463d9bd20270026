#pragma once

#include <atomic>
#include <string>

#include "lowering/lowering.h"

namespace torch_tpu::eager {

// Process-wide switches that shape programs or launches.
struct GlobalSettings {
  // -1: by the platform (float32 exact on a CPU plugin, one pass on a TPU); else 0 default, 1 high,
  // 2 highest.
  std::atomic<int> float32_matmul{-1};
  std::atomic<bool> launch_blocking{false};
  std::atomic<bool> allow_excess_precision{false};
};
GlobalSettings& global_settings();

// Where the running Python code calls from ("train.py:12 in step"), for errors when launches block;
// empty without a caller in Python. Set by the bindings.
std::string python_location();
void set_python_location(std::string (*location)());

// Settings of the calling thread's next program; starts the client.
lowering::Settings current_settings();
// The same in one word, for keys.
uint64_t settings_word();

}  // namespace torch_tpu::eager
