#include "lowering/promotion.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace torch_tpu::lowering {
namespace {

int category(DType t) { return is_bool(t) ? 0 : is_int(t) ? 1 : is_float(t) ? 2 : 3; }

DType promote_ints(DType a, DType b) {
  if (is_signed_int(a) == is_signed_int(b)) return byte_size(a) >= byte_size(b) ? a : b;
  const DType s = is_signed_int(a) ? a : b;
  const DType u = is_signed_int(a) ? b : a;
  if (u == DType::kU8) return byte_size(s) > 1 ? s : DType::kS16;
  fail(ErrorKind::kInvalidArgument, "Promotion for ", mlir_name(a), " and ", mlir_name(b),
       " is not supported: uint16, uint32 and uint64 have limited type promotion");
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  const int ca = category(a);
  const int cb = category(b);
  if (ca == 3 || cb == 3) {
    const bool wide =
        a == DType::kC128 || b == DType::kC128 || a == DType::kF64 || b == DType::kF64;
    return wide ? DType::kC128 : DType::kC64;
  }
  if (ca != cb) return ca > cb ? a : b;
  if (ca == 1) return promote_ints(a, b);
  if (is_float8(a) || is_float8(b)) {
    TT_CHECK(!(is_float8(a) && is_float8(b)), kInvalidArgument,
             "Promotion for Float8 Types is not supported, attempted to promote ", mlir_name(a),
             " and ", mlir_name(b));
    return is_float8(a) ? b : a;
  }
  if (is_half(a) && is_half(b)) return DType::kF32;
  return byte_size(a) >= byte_size(b) ? a : b;
}

DType result_type(std::span<const PromotionOperand> operands, DType default_float) {
  using Rank = PromotionOperand::Rank;
  std::optional<DType> by_rank[3];
  for (const PromotionOperand& o : operands) {
    DType t = o.dtype;
    if (o.rank == Rank::kWrapped) {
      if (is_float(t)) t = default_float;
      if (is_complex(t)) t = complex_of(default_float);
    }
    auto& slot = by_rank[static_cast<int>(o.rank)];
    slot = slot ? promote_types(*slot, t) : t;
  }
  // A lower rank counts only where it is of a higher category.
  auto combine = [](std::optional<DType> higher, std::optional<DType> lower) {
    if (!higher || !lower) return higher ? higher : lower;
    if (category(*lower) <= category(*higher)) {
      return higher;
    }
    // A complex number of lower rank takes the precision of a float tensor.
    if (is_complex(*lower) && is_float(*higher)) return std::optional(complex_of(*higher));
    return std::optional(promote_types(*higher, *lower));
  };
  const auto result = combine(by_rank[2], combine(by_rank[1], by_rank[0]));
  TT_CHECK(result.has_value(), kInternal, "result_type of no operands");
  return *result;
}

}  // namespace torch_tpu::lowering
