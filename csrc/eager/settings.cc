#include "eager/settings.h"

#include <ATen/Context.h>

#include "base/env.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {

GlobalSettings& global_settings() {
  static GlobalSettings settings;
  static const bool once = [] {
    try {
      settings.launch_blocking = env<EnvVar::kLaunchBlocking>();
    } catch (const Error&) {
      // check_environment() reports it at first use.
    }
    return true;
  }();
  static_cast<void>(once);
  return settings;
}

uint64_t settings_word() {
  static const bool emulate = env<EnvVar::kEmulateMxu>();
  const GlobalSettings& g = global_settings();
  return static_cast<uint64_t>(g.float32_matmul.load(std::memory_order_relaxed) + 1) |
         (emulate ? 8u : 0u) | (at::globalContext().deterministicAlgorithms() ? 16u : 0u) |
         (g.allow_excess_precision.load(std::memory_order_relaxed) ? 32u : 0u) |
         (static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 8);
}

lowering::Settings current_settings() {
  lowering::Settings s;
  const bool is_cpu = runtime::Runtime::get().capabilities().is_cpu;
  const int chosen = global_settings().float32_matmul.load();
  s.emulate_mxu = is_cpu && env<EnvVar::kEmulateMxu>();
  // "medium" in PyTorch's words, one bfloat16 pass, is a TPU's default; a CPU plugin computes
  // exactly.
  const int passes = chosen >= 0 ? chosen : (is_cpu && !s.emulate_mxu ? 2 : 0);
  s.float32_matmul = passes == 0   ? lowering::Precision::kDefault
                     : passes == 1 ? lowering::Precision::kHigh
                                   : lowering::Precision::kHighest;
  s.deterministic = at::globalContext().deterministicAlgorithms();
  s.is_cpu = is_cpu;
  return s;
}

namespace {
std::string (*location_of_python)() = nullptr;
}  // namespace

std::string python_location() {
  return location_of_python == nullptr ? std::string() : location_of_python();
}

void set_python_location(std::string (*location)()) { location_of_python = location; }

}  // namespace torch_tpu::eager
