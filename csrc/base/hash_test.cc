#include "base/hash.h"

#include <gtest/gtest.h>

#include <bitset>
#include <cstdio>
#include <fstream>
#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace torch_tpu {

// Lets the portable code be compared with the instructions.
class Sha256TestPeer {
 public:
  static Sha256 portable() {
    Sha256 hash;
    hash.accelerated_ = false;
    return hash;
  }
};

namespace {

Hash128 hash_of(std::initializer_list<uint64_t> words) {
  WordHasher hasher;
  for (uint64_t word : words) hasher.add(word);
  return hasher.finish();
}

TEST(WordHasher, OrderCountAndValuesMatter) {
  EXPECT_EQ(hash_of({1, 2, 3}), hash_of({1, 2, 3}));
  EXPECT_NE(hash_of({1, 2, 3}), hash_of({3, 2, 1}));
  EXPECT_NE(hash_of({}), hash_of({0}));
  EXPECT_NE(hash_of({0}), hash_of({0, 0}));
  EXPECT_NE(WordHasher(1).finish(), WordHasher(2).finish());
}

TEST(WordHasher, TextBoundariesMatter) {
  WordHasher a;
  a.add_text("ab");
  a.add_text("c");
  WordHasher b;
  b.add_text("a");
  b.add_text("bc");
  EXPECT_NE(a.finish(), b.finish());
  WordHasher c;
  c.add_text("exactly 8 and more");
  WordHasher d;
  d.add_text(std::string("exactly 8 and more\0", 19));
  EXPECT_NE(c.finish(), d.finish());
}

TEST(WordHasher, SmallKeysDoNotCollide) {
  std::unordered_set<Hash128> hashes;
  std::unordered_set<uint64_t> lows;
  std::unordered_set<uint64_t> highs;
  constexpr uint64_t kSide = 64;
  for (uint64_t a = 0; a < kSide; ++a) {
    for (uint64_t b = 0; b < kSide; ++b) {
      for (uint64_t c = 0; c < kSide; ++c) {
        const Hash128 hash = hash_of({a, b << 32, c});
        hashes.insert(hash);
        lows.insert(hash.low);
        highs.insert(hash.high);
      }
    }
  }
  EXPECT_EQ(hashes.size(), kSide * kSide * kSide);
  EXPECT_EQ(lows.size(), kSide * kSide * kSide);
  EXPECT_EQ(highs.size(), kSide * kSide * kSide);
}

TEST(WordHasher, OneChangedBitChangesHalfOfTheResult) {
  const auto distance = [](const Hash128& a, const Hash128& b) {
    return std::bitset<64>(a.low ^ b.low).count() + std::bitset<64>(a.high ^ b.high).count();
  };
  size_t total = 0;
  for (int bit = 0; bit < 64; ++bit) {
    for (size_t word = 0; word < 3; ++word) {
      uint64_t changed[3] = {5, 6, 7};
      changed[word] ^= uint64_t{1} << bit;
      const size_t bits =
          distance(hash_of({5, 6, 7}), hash_of({changed[0], changed[1], changed[2]}));
      EXPECT_GT(bits, 30u) << "word " << word << " bit " << bit;
      total += bits;
    }
  }
  EXPECT_NEAR(static_cast<double>(total) / (64 * 3), 64, 4);
}

TEST(Hash128, PrintsThirtyTwoDigits) {
  EXPECT_EQ(to_hex(Hash128{0x0123456789abcdef, 0xfedcba9876543210}),
            "fedcba98765432100123456789abcdef");
}

TEST(Sha256, GivesThePublishedTestVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmno"
                       "ijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PortableCodeAndInstructionsAgreeAtEveryLength) {
  std::string text;
  for (int i = 0; i < 300; ++i) {
    Sha256 portable = Sha256TestPeer::portable();
    portable.update(text);
    EXPECT_EQ(to_hex(portable.digest()), sha256_hex(text)) << text.size() << " bytes";
    text.push_back(static_cast<char>(i * 7));
  }
}

TEST(Sha256, PiecesGiveTheHashOfTheWhole) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text.push_back(static_cast<char>(i * 31));
  for (size_t piece : {1, 3, 55, 63, 64, 65, 200}) {
    Sha256 hash;
    for (size_t begin = 0; begin < text.size(); begin += piece) {
      hash.update(std::string_view(text).substr(begin, piece));
    }
    EXPECT_EQ(to_hex(hash.digest()), sha256_hex(text)) << "pieces of " << piece;
  }
}

TEST(Sha256, HashesFilesAndRefusesMissingOnes) {
  const std::string path = ::testing::TempDir() + "torch_tpu_hash_test.bin";
  std::ofstream(path, std::ios::binary) << "abc";
  EXPECT_EQ(sha256_hex_of_file(path), sha256_hex("abc"));
  std::remove(path.c_str());
  try {
    sha256_hex_of_file(path);
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_NE(error.message().find(path), std::string::npos);
  }
}

}  // namespace
}  // namespace torch_tpu
