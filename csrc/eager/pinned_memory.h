#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace torch_tpu::eager {

// Host memory for fast transfers: page-aligned and locked in RAM where the system's limits allow.
// Needs nothing of the plugin and doesn't start the client.
at::HostAllocator* pinned_allocator();
bool is_pinned(const void* pointer);

}  // namespace torch_tpu::eager
