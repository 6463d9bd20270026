#pragma once

#include <cstdint>
#include <string_view>

namespace torch_tpu {

// Element types of StableHLO tensors that a PyTorch dtype maps onto.
enum class DType : uint8_t {
  kPred,
  kS8,
  kS16,
  kS32,
  kS64,
  kU8,
  kU16,
  kU32,
  kU64,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kC128,
};

// MLIR spelling: "f32", "i64", "ui8", "complex<f32>".
std::string_view mlir_name(DType dtype);
// Bytes of one element in a dense buffer (bool is one byte).
int64_t byte_size(DType dtype);

constexpr bool is_bool(DType t) { return t == DType::kPred; }
constexpr bool is_signed_int(DType t) { return t >= DType::kS8 && t <= DType::kS64; }
constexpr bool is_unsigned_int(DType t) { return t >= DType::kU8 && t <= DType::kU64; }
constexpr bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }
constexpr bool is_integral(DType t) { return is_bool(t) || is_int(t); }
constexpr bool is_float8(DType t) { return t >= DType::kF8E4M3FN && t <= DType::kF8E8M0FNU; }
constexpr bool is_float(DType t) { return t >= DType::kF8E4M3FN && t <= DType::kF64; }
constexpr bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }
constexpr bool is_complex(DType t) { return t == DType::kC64 || t == DType::kC128; }

// float32 for complex64, float64 for complex128; other types are returned unchanged.
constexpr DType real_of(DType t) {
  return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t;
}
// complex64 for real types of up to 32 bits, complex128 for float64.
constexpr DType complex_of(DType t) {
  return is_complex(t) ? t : t == DType::kF64 ? DType::kC128 : DType::kC64;
}
// The type PyTorch accumulates and evaluates in: float32 for 8- and 16-bit floats.
constexpr DType opmath(DType t) { return is_half(t) || is_float8(t) ? DType::kF32 : t; }
// Unsigned integer of the same width (pred and complex have none: returned unchanged).
DType unsigned_of(DType t);
DType signed_of(DType t);

}  // namespace torch_tpu
