#pragma once

#include <optional>
#include <string>

#include "cache/cache.h"

namespace torch_tpu::cache {

// Where the environment puts the host tier; nothing when it is turned off or there is no place.
// Throws Error(kValue) for a bad TORCH_TPU_CACHE_SIZE or TORCH_TPU_TIER2_COMPILATION_CACHE.
std::optional<HostTier::Options> host_tier_options();

// The cache of this process, made at the first call as the environment says; lives for ever.
// Throws as host_tier_options.
Cache& process_cache();

}  // namespace torch_tpu::cache
