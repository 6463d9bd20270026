#include "base/hash.h"

namespace torch_tpu {

std::string to_hex(std::span<const uint8_t> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (uint8_t byte : bytes) {
    text.push_back(kDigits[byte >> 4]);
    text.push_back(kDigits[byte & 15]);
  }
  return text;
}

std::string to_hex(const Hash128& hash) {
  std::array<uint8_t, 16> bytes;
  for (int i = 0; i < 8; ++i) {
    bytes[i] = static_cast<uint8_t>(hash.high >> (56 - 8 * i));
    bytes[8 + i] = static_cast<uint8_t>(hash.low >> (56 - 8 * i));
  }
  return to_hex(std::span<const uint8_t>(bytes));
}

void WordHasher::add_bytes(const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  add(uint64_t{size});
  uint64_t word;
  for (; size >= sizeof word; size -= sizeof word, next += sizeof word) {
    std::memcpy(&word, next, sizeof word);
    add(word);
  }
  if (size != 0) {
    word = 0;
    std::memcpy(&word, next, size);
    add(word);
  }
}

}  // namespace torch_tpu
