#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/error.h"
#include "base/hash.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace torch_tpu {
namespace {

alignas(16) constexpr uint32_t kRoundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

void process_portable(std::array<uint32_t, 8>& state, const uint8_t* block, size_t num_blocks) {
  for (; num_blocks > 0; --num_blocks, block += 64) {
    uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
      w[i] = uint32_t{block[4 * i]} << 24 | uint32_t{block[4 * i + 1]} << 16 |
             uint32_t{block[4 * i + 2]} << 8 | uint32_t{block[4 * i + 3]};
    }
    for (int i = 16; i < 64; ++i) {
      const uint32_t x = w[i - 15];
      const uint32_t y = w[i - 2];
      const uint32_t s0 = std::rotr(x, 7) ^ std::rotr(x, 18) ^ (x >> 3);
      const uint32_t s1 = std::rotr(y, 17) ^ std::rotr(y, 19) ^ (y >> 10);
      w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    auto [a, b, c, d, e, f, g, h] = state;
    for (int i = 0; i < 64; ++i) {
      const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
      const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kRoundConstants[i] + w[i];
      const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
      const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
      h = g;
      g = f;
      f = e;
      e = d + t1;
      d = c;
      c = b;
      b = a;
      a = t1 + t2;
    }
    const std::array<uint32_t, 8> added = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; ++i) state[i] += added[i];
  }
}

#if defined(__x86_64__)

bool has_sha_instructions() {
  unsigned eax, ebx, ecx, edx;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return false;
  return (ebx & bit_SHA) != 0 && __builtin_cpu_supports("sse4.1");
}

// A plugin is 200 MB and is hashed when a process starts: the instructions are 5 times faster.
__attribute__((target("sha,sse4.1,ssse3"))) void process_sha_instructions(
    std::array<uint32_t, 8>& state, const uint8_t* block, size_t num_blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions keep the state as (a, b, e, f) and (c, d, g, h), high lane first.
  const __m128i dcba = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data()));
  const __m128i hgfe = _mm_loadu_si128(reinterpret_cast<const __m128i*>(state.data() + 4));
  const __m128i cdab = _mm_shuffle_epi32(dcba, 0xb1);
  const __m128i efgh = _mm_shuffle_epi32(hgfe, 0x1b);
  __m128i abef = _mm_alignr_epi8(cdab, efgh, 8);
  __m128i cdgh = _mm_blend_epi16(efgh, cdab, 0xf0);

  for (; num_blocks > 0; --num_blocks, block += 64) {
    const __m128i start_abef = abef;
    const __m128i start_cdgh = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i) {
      const auto* source = reinterpret_cast<const __m128i*>(block + 16 * i);
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128(source), big_endian);
    }
#pragma GCC unroll 16
    for (int group = 0; group < 16; ++group) {
      __m128i& current = w[group & 3];
      if (group >= 4) {
        // w[t] = s1(w[t-2]) + w[t-7] + s0(w[t-15]) + w[t-16], four at a time.
        const __m128i last = w[(group + 3) & 3];
        const __m128i seven_back = _mm_alignr_epi8(last, w[(group + 2) & 3], 4);
        const __m128i partial = _mm_sha256msg1_epu32(current, w[(group + 1) & 3]);
        current = _mm_sha256msg2_epu32(_mm_add_epi32(partial, seven_back), last);
      }
      const __m128i constants =
          _mm_load_si128(reinterpret_cast<const __m128i*>(kRoundConstants + 4 * group));
      __m128i sum = _mm_add_epi32(current, constants);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      sum = _mm_shuffle_epi32(sum, 0x0e);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, sum);
    }
    abef = _mm_add_epi32(abef, start_abef);
    cdgh = _mm_add_epi32(cdgh, start_cdgh);
  }

  const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
  const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data()), _mm_blend_epi16(feba, dchg, 0xf0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(state.data() + 4), _mm_alignr_epi8(dchg, feba, 8));
}

#else

bool has_sha_instructions() { return false; }
void process_sha_instructions(std::array<uint32_t, 8>& state, const uint8_t* block,
                              size_t num_blocks) {
  process_portable(state, block, num_blocks);
}

#endif

}  // namespace

bool Sha256::is_accelerated() {
  static const bool accelerated = has_sha_instructions();
  return accelerated;
}

Sha256::Sha256()
    : state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
             0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
      pending_{},
      accelerated_(is_accelerated()) {}

void Sha256::process(const uint8_t* blocks, size_t num_blocks) {
  if (accelerated_)
    process_sha_instructions(state_, blocks, num_blocks);
  else
    process_portable(state_, blocks, num_blocks);
}

void Sha256::update(const void* data, size_t size) {
  const auto* next = static_cast<const uint8_t*>(data);
  size_ += size;
  if (num_pending_ != 0) {
    const size_t taken = std::min(size, pending_.size() - num_pending_);
    std::copy_n(next, taken, pending_.begin() + num_pending_);
    num_pending_ += taken;
    next += taken;
    size -= taken;
    if (num_pending_ < pending_.size()) return;
    process(pending_.data(), 1);
    num_pending_ = 0;
  }
  process(next, size / 64);
  next += size / 64 * 64;
  num_pending_ = size % 64;
  std::copy_n(next, num_pending_, pending_.begin());
}

Sha256::Digest Sha256::digest() {
  const uint64_t bits = size_ * 8;
  std::array<uint8_t, 72> padding{0x80};
  const size_t zeros_end = (num_pending_ < 56 ? 56 : 120) - num_pending_;
  for (int i = 0; i < 8; ++i) padding[zeros_end + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(padding.data(), zeros_end + 8);
  Digest digest;
  for (int i = 0; i < 32; ++i)
    digest[i] = static_cast<uint8_t>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return to_hex(hash.digest());
}

std::string sha256_hex_of_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  TT_CHECK(file >= 0, kUnavailable, "can't read ", path, ": ", std::strerror(errno));
  struct Closer {
    int file;
    ~Closer() { ::close(file); }
  } closer{file};
  constexpr size_t kChunk = 1 << 20;
  const auto chunk = std::make_unique_for_overwrite<uint8_t[]>(kChunk);
  Sha256 hash;
  while (true) {
    const ssize_t count = ::read(file, chunk.get(), kChunk);
    if (count < 0 && errno == EINTR) continue;
    TT_CHECK(count >= 0, kUnavailable, "can't read ", path, ": ", std::strerror(errno));
    if (count == 0) break;
    hash.update(chunk.get(), static_cast<size_t>(count));
  }
  return to_hex(hash.digest());
}

}  // namespace torch_tpu
