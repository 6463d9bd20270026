#pragma once

#include <functional>

namespace torch_tpu::eager {

// Says whether first use would find a plugin; kept after the first answer.
// Decided outside: Python knows what is installed.
void set_availability(std::function<bool()> is_available);
bool is_available();

}  // namespace torch_tpu::eager
