#pragma once

#include <string>

#include "cache/cache.h"

namespace torch_tpu::cache {

// The SHA-256 of a file, 64 hexadecimal digits, remembered in the host tier under the file's path,
// size and times: a plugin of several hundred megabytes takes a fifth of a second to read.
// Throws Error(kUnavailable) when the file can't be read.
std::string file_sha256(const std::string& path, HostTier* host);

// The shared object (or program) that holds the function or variable at the address; empty if none.
std::string file_of_code(const void* address);

}  // namespace torch_tpu::cache
