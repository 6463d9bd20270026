#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace torch_tpu {

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  auto operator<=>(const Hash128&) const = default;
};

// 32 hexadecimal digits.
std::string to_hex(const Hash128& hash);
std::string to_hex(std::span<const uint8_t> bytes);

// Incremental hash of 64-bit words for in-memory keys: a few nanoseconds a word, well mixed, not
// cryptographic. Values differ between releases; never store them.
class WordHasher {
 public:
  explicit WordHasher(uint64_t seed = 0) : low_(seed ^ kStartLow), high_(seed + kStartHigh) {}

  // Words given one by one; the order counts.
  void add(uint64_t word) {
    // One lane multiplies to 128 bits and folds, the other is a bijection of its state: a
    // collision would have to happen in both at the same word.
    low_ = fold(low_ ^ word, kMultiplyLow);
    high_ = std::rotl(high_ ^ word, 29) * kMultiplyHigh + kStartLow;
    ++count_;
  }
  void add(std::span<const int64_t> words) {
    for (int64_t word : words) add(static_cast<uint64_t>(word));
  }
  // Hashes the length too, so that ("ab", "c") and ("a", "bc") differ.
  void add_bytes(const void* data, size_t size);
  void add_text(std::string_view text) { add_bytes(text.data(), text.size()); }
  void add(const Hash128& hash) {
    add(hash.low);
    add(hash.high);
  }

  Hash128 finish() const {
    const uint64_t a = avalanche(low_ + std::rotl(high_, 17) + count_);
    const uint64_t b = avalanche(high_ ^ std::rotl(low_, 41) ^ (count_ * kMultiplyLow));
    return {a + std::rotl(b, 23), b ^ std::rotl(a, 31)};
  }

 private:
  static constexpr uint64_t kStartLow = 0x243f6a8885a308d3;      // digits of pi
  static constexpr uint64_t kStartHigh = 0x13198a2e03707344;     // digits of pi
  static constexpr uint64_t kMultiplyLow = 0x9e3779b97f4a7c15;   // golden ratio
  static constexpr uint64_t kMultiplyHigh = 0xd1342543de82ef95;  // odd, good spectral test

  static uint64_t fold(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }
  static uint64_t avalanche(uint64_t x) {
    x = (x ^ (x >> 32)) * 0xe9846af9b1a615d;
    x = (x ^ (x >> 32)) * 0xe9846af9b1a615d;
    return x ^ (x >> 28);
  }

  uint64_t low_;
  uint64_t high_;
  uint64_t count_ = 0;
};

// SHA-256 (FIPS 180-4), for keys that are stored or shared.
class Sha256 {
 public:
  using Digest = std::array<uint8_t, 32>;

  Sha256();
  void update(const void* data, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  // Ends the computation; the object must not be used again.
  Digest digest();

  // Whether blocks go through the processor's SHA instructions.
  static bool is_accelerated();

 private:
  friend class Sha256TestPeer;
  void process(const uint8_t* blocks, size_t num_blocks);

  std::array<uint32_t, 8> state_;
  std::array<uint8_t, 64> pending_;
  size_t num_pending_ = 0;
  uint64_t size_ = 0;
  bool accelerated_;
};

// 64 hexadecimal digits.
std::string sha256_hex(std::string_view text);
// Hash of a file's contents; Error(kUnavailable) when it can't be read.
std::string sha256_hex_of_file(const std::string& path);

}  // namespace torch_tpu

template <>
struct std::hash<torch_tpu::Hash128> {
  size_t operator()(const torch_tpu::Hash128& hash) const noexcept { return hash.low; }
};
