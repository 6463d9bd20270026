#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "cache/key.h"

// Names and times that reading, writing and maintaining a host folder share.
namespace torch_tpu::cache {

// Another form of entries or folders goes into a folder of another name, so that versions of the
// package that differ in it can share the place.
inline constexpr char kVersionFolder[] = "v1";
inline constexpr char kPruneStamp[] = "pruned";

inline constexpr int64_t kSecond = 1'000'000'000;
// Uses of an entry that are closer than this count as one.
inline constexpr int64_t kUseGranularity = 60 * kSecond;

inline std::string entry_subfolder(const Key& key) { return key.hex().substr(0, 2); }
inline std::string entry_path(const Key& key) {
  const std::string hex = key.hex();
  return hex.substr(0, 2) + "/" + hex;
}

inline timespec to_timespec(int64_t nanoseconds) {
  return {static_cast<time_t>(nanoseconds / kSecond), static_cast<long>(nanoseconds % kSecond)};
}

}  // namespace torch_tpu::cache
