#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cache/key.h"

namespace torch_tpu::cache {

enum class EntryKind : uint32_t {
  kProgram = 1,   // a serialised executable
  kCall = 2,      // what a call key leads to
  kFileHash = 3,  // SHA-256 of a large file, see file_hash.h
};
// "program", "call", "file hash"; "unknown" for others.
std::string_view entry_kind_name(EntryKind kind);

// What is stored, in every tier and in exported archives, as one file in this form:
//
//   offset  bytes
//        0      8  "TTPUCACH"
//        8      4  version of this form
//       12      4  kind
//       16      4  length of the name
//       20      4  length of the origin
//       24      8  length of the payload
//       32     32  key
//       64     32  SHA-256 of everything else: the bytes before and after this field
//       96         name, origin, payload
//
// Numbers are little-endian.
struct Entry {
  Key key;
  EntryKind kind = EntryKind::kProgram;
  std::string_view name;    // what it is, for people: "aten::add.Tensor"
  std::string_view origin;  // what made it: "torch_tpu 0.1.0, cpu"
  std::string_view payload;
};

inline constexpr uint32_t kEntryVersion = 1;
inline constexpr size_t kEntryHeaderSize = 96;

std::string encode_entry(const Entry& entry);
// Of bytes that were checked already; a view of them.
std::string_view payload_of(std::string_view encoded);

enum class EntryState {
  kGood,
  kForeign,    // not an entry, or of another version of the form
  kTruncated,  // shorter or longer than its header says
  kDamaged,    // its checksum is wrong
  kMisplaced,  // a good entry of another key
};
// "good", "foreign", ...
std::string_view entry_state_name(EntryState state);

struct DecodedEntry {
  EntryState state = EntryState::kForeign;
  Entry entry;  // its texts are views of the bytes decoded; only set when good or misplaced
};

// Just what the header says, of the first bytes of an entry: nothing is checked but form and
// version. Nothing when it is not an entry, or the bytes end before name and origin do.
std::optional<Entry> peek_entry(std::string_view start);

// Checks everything; never throws. `expected` is the key the bytes were found under, if any.
DecodedEntry decode_entry(std::string_view bytes, const std::optional<Key>& expected);

}  // namespace torch_tpu::cache
