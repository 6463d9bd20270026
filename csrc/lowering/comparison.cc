#include "lowering/families.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {
namespace {

template <Compare Direction>
Value comparison(Lowering& b, Value x, Value y) {
  return b.bcompare(x, y, Direction);
}

template <Compare Direction>
void add_comparison(OperatorTable& table, const std::string& name) {
  constexpr RuleOptions kPromoted{.promotion = Promotion::kResult};
  table.add(name + ".Tensor", comparison<Direction>, kPromoted);
  table.add(name + ".Scalar", with_number<comparison<Direction>>, kPromoted);
}

Value truth(Lowering& b, Value x) { return b.convert(x, DType::kPred); }

Value logical_and(Lowering& b, Value x, Value y) { return b.bmul(truth(b, x), truth(b, y)); }

Value logical_or(Lowering& b, Value x, Value y) { return b.badd(truth(b, x), truth(b, y)); }

Value logical_xor(Lowering& b, Value x, Value y) {
  return b.bcompare(truth(b, x), truth(b, y), Compare::kNe);
}

template <bool Positive>
Value is_signed_inf(Lowering& b, Value x) {
  Value negative = is_negative(b, x);
  return b.and_(is_inf(b, x), Positive ? b.not_(negative) : negative);
}

}  // namespace

void register_comparison(OperatorTable& table) {
  add_comparison<Compare::kEq>(table, "eq");
  add_comparison<Compare::kNe>(table, "ne");
  add_comparison<Compare::kLt>(table, "lt");
  add_comparison<Compare::kLe>(table, "le");
  add_comparison<Compare::kGt>(table, "gt");
  add_comparison<Compare::kGe>(table, "ge");

  table.add("logical_and", logical_and);
  table.add("logical_or", logical_or);
  table.add("logical_xor", logical_xor);
  table.add("logical_not", [](Lowering& b, Value x) { return b.not_(truth(b, x)); });

  table.add("isnan", [](Lowering& b, Value x) { return b.is_nan(x); });
  table.add("isinf", is_inf);
  table.add("isposinf", is_signed_inf<true>);
  table.add("isneginf", is_signed_inf<false>);
}

}  // namespace torch_tpu::lowering
