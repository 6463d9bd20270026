#include "lowering/philox.h"

#include "lowering/loops.h"

namespace torch_tpu::lowering {
namespace {

constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;

struct Product {
  Value high, low;
};

// 32 x 32 -> 64 bits, by halves of 16 bits.
Product multiply_wide(Lowering& b, Value x, uint32_t factor) {
  auto c = [&](uint32_t v) { return b.constant_int(DType::kU32, v, x.shape()); };
  auto upper = [&](Value v) { return b.shift_right_logical(v, c(16)); };
  auto lower = [&](Value v) { return b.and_(v, c(0xFFFF)); };
  Value factor_high = c(factor >> 16);
  Value factor_low = c(factor & 0xFFFF);
  Value first = b.multiply(lower(x), factor_low);
  Value second = b.add(b.multiply(upper(x), factor_low), upper(first));
  Value third = b.add(b.multiply(lower(x), factor_high), lower(second));
  Value high = b.add(b.multiply(upper(x), factor_high), b.add(upper(second), upper(third)));
  return {high, b.multiply(x, c(factor))};
}

}  // namespace

// Philox4x32-10 (Salmon et al. 2011). The key is the seed; the counter of block i is offset + i in
// its lower and the seed in its upper half.
Value philox_words(Lowering& b, Value state, int64_t blocks) {
  const Shape shape{blocks};
  auto word = [&](int64_t i, bool high) {
    Value v = b.reshape(b.slice_dim(state, 0, i, i + 1), {});
    if (high) v = b.shift_right_logical(v, b.constant_int(DType::kU64, 32));
    return b.convert(v, DType::kU32);
  };
  Value index = b.iota({DType::kU32, shape}, 0);
  Value low = b.add(b.broadcast(word(1, false), shape), index);
  Value carry = b.convert(b.compare(low, index, Compare::kLt), DType::kU32);
  Value high = b.add(b.broadcast(word(1, true), shape), carry);
  Value seed_low = word(0, false);
  Value seed_high = word(0, true);
  const Values end = for_loop(
      b, 10,
      {low, high, b.broadcast(seed_low, shape), b.broadcast(seed_high, shape), seed_low, seed_high},
      [&](Value, std::span<const Value> s) {
        const Product p = multiply_wide(b, s[0], kMultiplier0);
        const Product q = multiply_wide(b, s[2], kMultiplier1);
        return Values{b.xor_(b.xor_(q.high, s[1]), b.broadcast(s[4], shape)),
                      q.low,
                      b.xor_(b.xor_(p.high, s[3]), b.broadcast(s[5], shape)),
                      p.low,
                      b.add(s[4], b.constant_int(DType::kU32, kWeyl0)),
                      b.add(s[5], b.constant_int(DType::kU32, kWeyl1))};
      });
  return b.concatenate(std::span(end).first(4), 0);
}

}  // namespace torch_tpu::lowering
