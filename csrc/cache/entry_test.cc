#include "cache/entry.h"

#include <gtest/gtest.h>

#include "cache/testing/cache_test.h"

namespace torch_tpu::cache {
namespace {

using testing::entry_of;
using testing::key_of;

EntryState state_of(std::string_view bytes, std::string_view name) {
  return decode_entry(bytes, key_of(name)).state;
}

TEST(Entry, WhatIsEncodedIsDecoded) {
  const std::string payload("code\0code", 9);
  const Entry entry{key_of("p"), EntryKind::kCall, "aten::add.Tensor", "torch_tpu 1.2.3", payload};
  const std::string bytes = encode_entry(entry);
  const DecodedEntry decoded = decode_entry(bytes, key_of("p"));
  ASSERT_EQ(decoded.state, EntryState::kGood);
  EXPECT_EQ(decoded.entry.key, entry.key);
  EXPECT_EQ(decoded.entry.kind, EntryKind::kCall);
  EXPECT_EQ(decoded.entry.name, entry.name);
  EXPECT_EQ(decoded.entry.origin, entry.origin);
  EXPECT_EQ(decoded.entry.payload, payload);
  EXPECT_EQ(payload_of(bytes), payload);
  EXPECT_EQ(peek_entry(bytes.substr(0, bytes.size() - 3))->name, entry.name);
}

TEST(Entry, EmptyTextsAndPayloadAreAllowed) {
  EXPECT_EQ(state_of(encode_entry({key_of("p"), EntryKind::kProgram, "", "", ""}), "p"),
            EntryState::kGood);
}

TEST(Entry, TheFormIsTheDocumentedOne) {
  const std::string bytes = entry_of("name", "payload");
  EXPECT_EQ(bytes.substr(0, 8), "TTPUCACH");
  EXPECT_EQ(bytes.substr(8, 8), std::string("\1\0\0\0\1\0\0\0", 8));
  EXPECT_EQ(bytes.substr(16, 16), std::string("\4\0\0\0\6\0\0\0\7\0\0\0\0\0\0\0", 16));
  EXPECT_EQ(bytes.substr(96), "namea testpayload");
}

TEST(Entry, EveryTruncationIsNoticed) {
  const std::string bytes = entry_of("name", "payload");
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_EQ(state_of(bytes.substr(0, size), "name"), EntryState::kTruncated) << size;
  EXPECT_EQ(state_of(bytes + '\0', "name"), EntryState::kTruncated);
}

TEST(Entry, EveryFlippedBitIsNoticed) {
  const std::string bytes = entry_of("name", "payload");
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(state_of(flipped, "name"), EntryState::kGood) << bit;
  }
}

TEST(Entry, ForeignFilesOtherVersionsAndEntriesOfOtherKeysAreToldApart) {
  EXPECT_EQ(state_of("#!/bin/sh\n", "name"), EntryState::kForeign);
  EXPECT_EQ(state_of(std::string(1000, '\0'), "name"), EntryState::kForeign);
  std::string other_version = entry_of("name", "payload");
  other_version[8] = 2;
  EXPECT_EQ(state_of(other_version, "name"), EntryState::kForeign);
  EXPECT_EQ(state_of(entry_of("name", "payload"), "another"), EntryState::kMisplaced);
  EXPECT_EQ(decode_entry(entry_of("name", "payload"), std::nullopt).state, EntryState::kGood);
}

TEST(Entry, HugeSizesInTheHeaderAreHarmless) {
  for (const size_t at : {16, 20, 24}) {
    std::string bytes = entry_of("name", "payload");
    for (size_t i = 0; i < (at == 24 ? 8U : 4U); ++i) bytes[at + i] = '\xff';
    EXPECT_EQ(state_of(bytes, "name"), EntryState::kTruncated) << at;
    EXPECT_EQ(peek_entry(bytes).has_value(), at == 24);
  }
}

TEST(Key, HexIsReadBack) {
  const Key key = key_of("x");
  EXPECT_EQ(key.hex().size(), 64U);
  EXPECT_EQ(Key::from_hex(key.hex()), key);
  EXPECT_EQ(Key::from_hex(key.hex().substr(1)), std::nullopt);
  EXPECT_EQ(Key::from_hex(std::string(64, 'g')), std::nullopt);
  EXPECT_EQ(Key::from_hex(std::string(64, 'A')), std::nullopt);
}

}  // namespace
}  // namespace torch_tpu::cache
