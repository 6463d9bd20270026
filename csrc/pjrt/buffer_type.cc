#include "pjrt/buffer_type.h"

#include <algorithm>
#include <array>

namespace torch_tpu::pjrt {
namespace {

struct TypeInfo {
  std::string_view name;
  int bits;
};

// In the order of PJRT_Buffer_Type.
constexpr std::array<TypeInfo, 30> kTypes = {{
    {"invalid", 0},    {"pred", 8},   {"s8", 8},       {"s16", 16},          {"s32", 32},
    {"s64", 64},       {"u8", 8},     {"u16", 16},     {"u32", 32},          {"u64", 64},
    {"f16", 16},       {"f32", 32},   {"f64", 64},     {"bf16", 16},         {"c64", 64},
    {"c128", 128},     {"f8e5m2", 8}, {"f8e4m3fn", 8}, {"f8e4m3b11fnuz", 8}, {"f8e5m2fnuz", 8},
    {"f8e4m3fnuz", 8}, {"s4", 4},     {"u4", 4},       {"token", 0},         {"s2", 2},
    {"u2", 2},         {"f8e4m3", 8}, {"f8e3m4", 8},   {"f8e8m0fnu", 8},     {"f4e2m1fn", 4},
}};
static_assert(PJRT_Buffer_Type_F4E2M1FN + 1 == kTypes.size());
static_assert(kTypes[PJRT_Buffer_Type_C128].name == "c128");
static_assert(kTypes[PJRT_Buffer_Type_TOKEN].name == "token");

}  // namespace

std::string_view buffer_type_name(PJRT_Buffer_Type type) {
  const auto index = static_cast<size_t>(type);
  return index < kTypes.size() ? kTypes[index].name : "unknown";
}

int bits_per_element(PJRT_Buffer_Type type) {
  const auto index = static_cast<size_t>(type);
  return index < kTypes.size() ? kTypes[index].bits : 0;
}

int64_t dense_host_bytes(PJRT_Buffer_Type type, std::span<const int64_t> dims) {
  const int bits = bits_per_element(type);
  int64_t count = bits == 0 ? 0 : std::max(bits, 8) / 8;
  for (int64_t dim : dims) count *= dim;
  return count;
}

}  // namespace torch_tpu::pjrt
