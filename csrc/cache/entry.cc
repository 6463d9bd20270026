#include "cache/entry.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace torch_tpu::cache {
namespace {

constexpr std::string_view kMagic = "TTPUCACH";
constexpr size_t kVersionAt = 8;
constexpr size_t kKindAt = 12;
constexpr size_t kNameSizeAt = 16;
constexpr size_t kOriginSizeAt = 20;
constexpr size_t kPayloadSizeAt = 24;
constexpr size_t kKeyAt = 32;
constexpr size_t kChecksumAt = 64;
// Longer texts are cut: they are for people.
constexpr size_t kMaxText = 4096;

template <typename T>
void put(std::string& bytes, size_t at, T value) {
  for (size_t i = 0; i < sizeof value; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

template <typename T>
T get(std::string_view bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<T>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

Sha256::Digest checksum(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.substr(0, kChecksumAt));
  hash.update(bytes.substr(kEntryHeaderSize));
  return hash.digest();
}

// Of name and origin together. The header must be there.
uint64_t texts_size(std::string_view bytes) {
  return uint64_t{get<uint32_t>(bytes, kNameSizeAt)} + get<uint32_t>(bytes, kOriginSizeAt);
}

// Header and texts must be there.
Entry take_apart(std::string_view bytes) {
  const size_t name_size = get<uint32_t>(bytes, kNameSizeAt);
  const std::string_view rest = bytes.substr(kEntryHeaderSize);
  Entry entry;
  std::memcpy(entry.key.bytes.data(), bytes.data() + kKeyAt, entry.key.bytes.size());
  entry.kind = static_cast<EntryKind>(get<uint32_t>(bytes, kKindAt));
  entry.name = rest.substr(0, name_size);
  entry.origin = rest.substr(name_size, get<uint32_t>(bytes, kOriginSizeAt));
  entry.payload = rest.substr(texts_size(bytes));
  return entry;
}

}  // namespace

std::string_view entry_kind_name(EntryKind kind) {
  switch (kind) {
    case EntryKind::kProgram:
      return "program";
    case EntryKind::kCall:
      return "call";
    case EntryKind::kFileHash:
      return "file hash";
  }
  return "unknown";
}

std::string_view entry_state_name(EntryState state) {
  switch (state) {
    case EntryState::kGood:
      return "good";
    case EntryState::kForeign:
      return "foreign";
    case EntryState::kTruncated:
      return "truncated";
    case EntryState::kDamaged:
      return "damaged";
    case EntryState::kMisplaced:
      return "misplaced";
  }
  return "unknown";
}

std::string encode_entry(const Entry& entry) {
  const std::string_view name = entry.name.substr(0, kMaxText);
  const std::string_view origin = entry.origin.substr(0, kMaxText);
  std::string bytes(kEntryHeaderSize, '\0');
  bytes.reserve(kEntryHeaderSize + name.size() + origin.size() + entry.payload.size());
  std::ranges::copy(kMagic, bytes.begin());
  put(bytes, kVersionAt, kEntryVersion);
  put(bytes, kKindAt, static_cast<uint32_t>(entry.kind));
  put(bytes, kNameSizeAt, static_cast<uint32_t>(name.size()));
  put(bytes, kOriginSizeAt, static_cast<uint32_t>(origin.size()));
  put(bytes, kPayloadSizeAt, uint64_t{entry.payload.size()});
  std::memcpy(bytes.data() + kKeyAt, entry.key.bytes.data(), entry.key.bytes.size());
  bytes += name;
  bytes += origin;
  bytes += entry.payload;
  const Sha256::Digest sum = checksum(bytes);
  std::memcpy(bytes.data() + kChecksumAt, sum.data(), sum.size());
  return bytes;
}

std::string_view payload_of(std::string_view encoded) {
  return encoded.substr(kEntryHeaderSize + texts_size(encoded));
}

std::optional<Entry> peek_entry(std::string_view start) {
  if (start.size() < kEntryHeaderSize || !start.starts_with(kMagic) ||
      get<uint32_t>(start, kVersionAt) != kEntryVersion ||
      texts_size(start) > start.size() - kEntryHeaderSize)
    return std::nullopt;
  return take_apart(start);
}

DecodedEntry decode_entry(std::string_view bytes, const std::optional<Key>& expected) {
  if (!bytes.starts_with(kMagic.substr(0, bytes.size()))) return {EntryState::kForeign, {}};
  if (bytes.size() < kEntryHeaderSize) return {EntryState::kTruncated, {}};
  if (get<uint32_t>(bytes, kVersionAt) != kEntryVersion) return {EntryState::kForeign, {}};
  const uint64_t payload_size = get<uint64_t>(bytes, kPayloadSizeAt);
  const uint64_t rest_size = bytes.size() - kEntryHeaderSize;
  // Sums with the payload's size could overflow.
  if (payload_size > rest_size || texts_size(bytes) != rest_size - payload_size)
    return {EntryState::kTruncated, {}};
  const Sha256::Digest sum = checksum(bytes);
  if (std::memcmp(bytes.data() + kChecksumAt, sum.data(), sum.size()) != 0)
    return {EntryState::kDamaged, {}};
  const Entry entry = take_apart(bytes);
  const bool misplaced = expected && *expected != entry.key;
  return {misplaced ? EntryState::kMisplaced : EntryState::kGood, entry};
}

}  // namespace torch_tpu::cache
