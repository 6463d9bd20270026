#include "lowering/search.h"

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/loops.h"
#include "lowering/operator_table.h"
#include "lowering/promotion.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {

// Bisection as in ATen's cus_lower_bound and cus_upper_bound: a NaN sought lies behind everything.
Value insertion_points(Lowering& b, Value sequence, Value values, bool right) {
  const int64_t n = sequence.dim(-1);
  const DType type = index_type(n + 1);
  Value low = b.constant_int(type, 0, values.shape());
  if (n == 0 || values.numel() == 0) return low;
  if (is_bool(sequence.dtype())) {
    sequence = b.convert(sequence, DType::kU8);
    values = b.convert(values, DType::kU8);
  }
  Value high = b.constant_int(type, n, values.shape());
  int64_t steps = 1;
  while ((int64_t{1} << steps) <= n) ++steps;
  Values ends = for_loop(b, steps, {low, high}, [&](Value, std::span<const Value> s) -> Values {
    Value middle = b.add(s[0], b.divide(b.subtract(s[1], s[0]), b.full_like(s[0], 2)));
    Value at = readable_index(b, middle, n);
    Value found = sequence.rank() == 1 ? take_flat(b, sequence, at)
                                       : take_elements(b, sequence, sequence.rank() - 1, at);
    Value stop = b.compare(found, values, right ? Compare::kGt : Compare::kGe);
    Value open = b.compare(s[0], s[1], Compare::kLt);
    Value up = b.and_(open, b.not_(stop));
    Value down = b.and_(open, stop);
    return {b.select(up, b.add(middle, b.full_like(middle, 1)), s[0]),
            b.select(down, middle, s[1])};
  });
  return ends[0];
}

namespace {

using Rank = PromotionOperand::Rank;

Rank rank_of(Value x) { return x.rank() == 0 ? Rank::kZeroDim : Rank::kDimensioned; }

DType common_type(Value x, Value y) {
  const PromotionOperand operands[] = {{x.dtype(), rank_of(x)}, {y.dtype(), rank_of(y)}};
  return result_type(operands);
}

Value sought_number(Lowering& b, Value sequence, const Operand& number, DType& type) {
  const DType own = number.kind() == Scalar::Kind::kBool  ? DType::kPred
                    : number.kind() == Scalar::Kind::kInt ? DType::kS64
                                                          : DType::kF32;
  const PromotionOperand operands[] = {{sequence.dtype(), rank_of(sequence)},
                                       {own, Rank::kWrapped}};
  type = result_type(operands);
  return b.number(number, type);
}

Value search(Lowering& b, Value sequence, Value values, bool right,
             const std::optional<std::string>& side, const std::optional<Value>& sorter,
             DType type) {
  sequence = at_least_1d(b, b.convert(sequence, opmath(type)));
  if (sorter) {
    sequence = take_elements(b, sequence, sequence.rank() - 1,
                             readable_index(b, *sorter, sequence.dim(-1)));
  }
  if (side) {
    TT_CHECK(*side == "left" || *side == "right", kInvalidArgument,
             "side can only be 'left' or 'right' but got ", *side);
    TT_CHECK(!(right && *side == "left"), kInvalidArgument,
             "side and right can't be set to opposites, got side of left while right was True");
    right = *side == "right";
  }
  return insertion_points(b, sequence, b.convert(values, opmath(type)), right);
}

Value searchsorted(Lowering& b, Value sequence, Value values, Ignored, bool right,
                   std::optional<std::string> side, std::optional<Value> sorter) {
  return search(b, sequence, values, right, side, sorter, common_type(sequence, values));
}

Value searchsorted_number(Lowering& b, Value sequence, Operand value, Ignored, bool right,
                          std::optional<std::string> side, std::optional<Value> sorter) {
  DType type{};
  Value sought = sought_number(b, sequence, value, type);
  return search(b, sequence, sought, right, side, sorter, type);
}

Value bucketize(Lowering& b, Value values, Value boundaries, Ignored, bool right) {
  return search(b, boundaries, values, right, {}, {}, common_type(boundaries, values));
}

Value bucketize_number(Lowering& b, Operand value, Value boundaries, Ignored, bool right) {
  DType type{};
  Value sought = sought_number(b, boundaries, value, type);
  return search(b, boundaries, sought, right, {}, {}, type);
}

// --- membership

// Up to here every pair is compared; beyond, the tests are sorted and searched.
constexpr int64_t kFewTests = 128;

Value isin(Lowering& b, Value elements, Value tests, Ignored, bool invert) {
  const Shape shape = elements.shape();
  Value x = b.flatten(elements);
  Value t = b.flatten(tests);
  Value found;
  if (t.numel() <= kFewTests) {
    const int64_t last[] = {1};
    found = b.any(b.bcompare(b.unsqueeze(x, 1), b.unsqueeze(t, 0), Compare::kEq), last);
  } else {
    Value sorted = stable_sort(b, t, 0, false)[0];
    Value at = readable_index(b, insertion_points(b, sorted, x, false), t.numel());
    found = b.compare(take_flat(b, sorted, at), x, Compare::kEq);
  }
  found = b.reshape(found, shape);
  return invert ? b.not_(found) : found;
}

Value isin_number_tensor(Lowering& b, Operand element, Value tests, Ignored u, bool invert) {
  return isin(b, b.number(element, tests.dtype()), tests, u, invert);
}

Value isin_tensor_number(Lowering& b, Value elements, Operand test, Ignored u, bool invert) {
  return isin(b, elements, b.number(test, elements.dtype()), u, invert);
}

}  // namespace

void register_search(OperatorTable& table) {
  table.add("searchsorted.Tensor", searchsorted);
  table.add("searchsorted.Scalar", searchsorted_number);
  table.add("bucketize.Tensor", bucketize);
  table.add("bucketize.Scalar", bucketize_number);
  const RuleOptions promoted = {.promotion = Promotion::kResult, .opmath = true};
  table.add("isin.Tensor_Tensor", isin, promoted);
  table.add("isin.Scalar_Tensor", isin_number_tensor, promoted);
  table.add("isin.Tensor_Scalar", isin_tensor_number, promoted);
}

}  // namespace torch_tpu::lowering
