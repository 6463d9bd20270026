#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace torch_tpu {

// Bytes written as "1048576", "512M", "2G", "1.5GiB", "64 kb": units K, M, G, T, P with an optional
// "B" or "iB" in any case, all powers of 1024. Nothing for anything else, or above 2^63 - 1.
std::optional<int64_t> parse_byte_size(std::string_view text);

// "0 bytes", "512 bytes", "1.50 GiB": the form of PyTorch's out-of-memory messages.
std::string format_byte_size(int64_t bytes);

}  // namespace torch_tpu
