#include "stablehlo/dtype.h"

#include <array>

namespace torch_tpu {
namespace {

struct Row {
  std::string_view mlir;
  int64_t bytes;
};

constexpr std::array<Row, 20> kRows = {{
    {"i1", 1},         {"i8", 1},     {"i16", 2},        {"i32", 4},          {"i64", 8},
    {"ui8", 1},        {"ui16", 2},   {"ui32", 4},       {"ui64", 8},         {"f8E4M3FN", 1},
    {"f8E4M3FNUZ", 1}, {"f8E5M2", 1}, {"f8E5M2FNUZ", 1}, {"f8E8M0FNU", 1},    {"f16", 2},
    {"bf16", 2},       {"f32", 4},    {"f64", 8},        {"complex<f32>", 8}, {"complex<f64>", 16},
}};

}  // namespace

std::string_view mlir_name(DType dtype) { return kRows[static_cast<size_t>(dtype)].mlir; }

int64_t byte_size(DType dtype) { return kRows[static_cast<size_t>(dtype)].bytes; }

DType unsigned_of(DType t) {
  if (is_complex(t) || is_bool(t)) return t;
  switch (byte_size(t)) {
    case 1:
      return DType::kU8;
    case 2:
      return DType::kU16;
    case 4:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

DType signed_of(DType t) {
  if (is_complex(t) || is_bool(t)) return t;
  switch (byte_size(t)) {
    case 1:
      return DType::kS8;
    case 2:
      return DType::kS16;
    case 4:
      return DType::kS32;
    default:
      return DType::kS64;
  }
}

}  // namespace torch_tpu
