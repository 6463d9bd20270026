#include "runtime/scalar_cache.h"

#include <array>
#include <bit>
#include <cstring>
#include <mutex>

#include "base/error.h"

namespace torch_tpu::runtime {
namespace {

// Direct-mapped: an entry that collides replaces the older one, which bounds the cache.
constexpr size_t kEntries = 4096;

struct Entry {
  ScalarBits bits{};
  int device = -1;
  BufferRef buffer;
};

struct Cache {
  std::mutex mutex;
  std::array<Entry, kEntries> entries;
};

Cache& cache() {
  static auto* c = new Cache();
  return *c;
}

size_t slot_of(const ScalarBits& b, int device) {
  uint64_t h = (b.low ^ (static_cast<uint64_t>(b.dtype) << 56) ^ static_cast<uint64_t>(device)) *
               0x9E3779B97F4A7C15ull;
  h ^= b.high * 0xC2B2AE3D27D4EB4Full;
  return (h >> 40) % kEntries;
}

}  // namespace

ScalarBits scalar_bits(DType dtype, std::complex<double> value) {
  ScalarBits bits{dtype};
  switch (dtype) {
    case DType::kF32:
      bits.low = std::bit_cast<uint32_t>(static_cast<float>(value.real()));
      return bits;
    case DType::kF64:
      bits.low = std::bit_cast<uint64_t>(value.real());
      return bits;
    case DType::kC64:
      bits.low =
          std::bit_cast<uint32_t>(static_cast<float>(value.real())) |
          (static_cast<uint64_t>(std::bit_cast<uint32_t>(static_cast<float>(value.imag()))) << 32);
      return bits;
    case DType::kC128:
      bits.low = std::bit_cast<uint64_t>(value.real());
      bits.high = std::bit_cast<uint64_t>(value.imag());
      return bits;
    default:
      return scalar_bits(dtype, static_cast<int64_t>(value.real()));
  }
}

ScalarBits scalar_bits(DType dtype, int64_t value) {
  if (is_float(dtype) || is_complex(dtype))
    return scalar_bits(dtype, std::complex<double>(static_cast<double>(value)));
  TT_CHECK(is_integral(dtype), kInternal, "no scalar of this type");
  ScalarBits bits{dtype};
  bits.low = static_cast<uint64_t>(is_bool(dtype) ? value != 0 : value);
  const int64_t width = byte_size(dtype) * 8;
  if (width < 64) bits.low &= (uint64_t{1} << width) - 1;
  return bits;
}

BufferRef scalar_buffer(const ScalarBits& bits, Device& device) {
  Cache& c = cache();
  Entry& entry = c.entries[slot_of(bits, device.index())];
  {
    std::lock_guard lock(c.mutex);
    if (entry.device == device.index() && entry.bits == bits) return entry.buffer;
  }
  const uint64_t data[2] = {bits.low, bits.high};
  BufferRef buffer = Runtime::get().to_device(data, intern_type({bits.dtype, {}}), device);
  std::lock_guard lock(c.mutex);
  entry = {bits, device.index(), buffer};
  return buffer;
}

}  // namespace torch_tpu::runtime
