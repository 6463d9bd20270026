#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace torch_tpu::cache {

// What an entry is stored under: a SHA-256, so that equal keys mean equal contents.
struct Key {
  Sha256::Digest bytes{};

  // 64 lower-case hexadecimal digits.
  std::string hex() const { return to_hex(bytes); }
  // Nothing unless the text is what hex() gives.
  static std::optional<Key> from_hex(std::string_view text);

  auto operator<=>(const Key&) const = default;
};

}  // namespace torch_tpu::cache

template <>
struct std::hash<torch_tpu::cache::Key> {
  size_t operator()(const torch_tpu::cache::Key& key) const noexcept {
    size_t word;
    std::memcpy(&word, key.bytes.data(), sizeof word);
    return word;
  }
};
