#pragma once

#include "cache/fingerprint.h"

namespace torch_tpu::runtime {

// Keys of programs compiled by the plugin of this process for any one of its devices. Starts the
// client; made once.
const cache::Fingerprint& compiler_fingerprint();

}  // namespace torch_tpu::runtime
