#include "eager/scalar_type.h"

#include <c10/util/Exception.h>

#include <array>
#include <utility>

namespace torch_tpu::eager {
namespace {

constexpr std::array<std::pair<c10::ScalarType, DType>, 20> kPairs = {{
    {c10::ScalarType::Bool, DType::kPred},
    {c10::ScalarType::Char, DType::kS8},
    {c10::ScalarType::Short, DType::kS16},
    {c10::ScalarType::Int, DType::kS32},
    {c10::ScalarType::Long, DType::kS64},
    {c10::ScalarType::Byte, DType::kU8},
    {c10::ScalarType::UInt16, DType::kU16},
    {c10::ScalarType::UInt32, DType::kU32},
    {c10::ScalarType::UInt64, DType::kU64},
    {c10::ScalarType::Float8_e4m3fn, DType::kF8E4M3FN},
    {c10::ScalarType::Float8_e4m3fnuz, DType::kF8E4M3FNUZ},
    {c10::ScalarType::Float8_e5m2, DType::kF8E5M2},
    {c10::ScalarType::Float8_e5m2fnuz, DType::kF8E5M2FNUZ},
    {c10::ScalarType::Float8_e8m0fnu, DType::kF8E8M0FNU},
    {c10::ScalarType::Half, DType::kF16},
    {c10::ScalarType::BFloat16, DType::kBF16},
    {c10::ScalarType::Float, DType::kF32},
    {c10::ScalarType::Double, DType::kF64},
    {c10::ScalarType::ComplexFloat, DType::kC64},
    {c10::ScalarType::ComplexDouble, DType::kC128},
}};

constexpr int kNone = -1;

constexpr auto kByScalarType = [] {
  std::array<int8_t, 64> table{};
  for (auto& t : table) t = kNone;
  for (const auto& [scalar, dtype] : kPairs)
    table[static_cast<size_t>(scalar)] = static_cast<int8_t>(dtype);
  return table;
}();

}  // namespace

bool has_dtype(c10::ScalarType type) {
  const auto i = static_cast<size_t>(type);
  return i < kByScalarType.size() && kByScalarType[i] != kNone;
}

DType dtype_of(c10::ScalarType type) {
  TORCH_CHECK_NOT_IMPLEMENTED(has_dtype(type), "dtype ", c10::toString(type),
                              " is not supported on device tpu");
  return static_cast<DType>(kByScalarType[static_cast<size_t>(type)]);
}

c10::ScalarType scalar_type_of(DType dtype) {
  for (const auto& [scalar, d] : kPairs) {
    if (d == dtype) return scalar;
  }
  TORCH_INTERNAL_ASSERT(false, "unknown dtype");
}

}  // namespace torch_tpu::eager
