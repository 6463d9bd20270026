#pragma once

#include <map>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"

namespace torch_tpu::runtime {

// The compile options that don't do what PyTorch's numerics need of them with this plugin, by a
// program that is compiled with `overrides` and run: NaN must survive elementwise and reduced
// maxima, and bfloat16 must round after each operation. Throws what the plugin throws.
std::vector<std::string> ineffective_options(
    const pjrt::Client& client, PJRT_Device* device,
    const std::map<std::string, pjrt::OptionValue>& overrides);

}  // namespace torch_tpu::runtime
