#include "lowering/random_numbers.h"

#include <numbers>

namespace torch_tpu::lowering {
namespace {

int mantissa_bits(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return 53;
    case DType::kF16:
      return 11;
    case DType::kBF16:
      return 8;
    default:
      return 24;
  }
}

}  // namespace

Value RandomSource::words(const Shape& shape) {
  if (!state_.defined()) return b.random_words(shape);
  Value out = b.random_words_at(state_, shape);
  const int64_t advance[] = {0, Lowering::random_blocks_of(shape)};
  state_ = b.add(state_, b.constant_list(DType::kU64, advance));
  return out;
}

Value RandomSource::words64(const Shape& shape) {
  Shape pairs = shape;
  pairs.insert(pairs.begin(), 2);
  Value w = words(pairs);
  auto half = [&](int64_t i) {
    return b.convert(b.squeeze_dim(b.slice_dim(w, 0, i, i + 1), 0), DType::kU64);
  };
  return b.or_(b.shift_left(half(0), b.constant_int(DType::kU64, 32, shape)), half(1));
}

Value RandomSource::uniform(DType dtype, const Shape& shape) {
  const int bits = mantissa_bits(dtype);
  const DType type = opmath(dtype);
  if (type == DType::kF64) {
    Value w = words64(shape);
    w = b.shift_right_logical(w, b.constant_int(DType::kU64, 64 - bits, shape));
    return b.mul_scalar(b.convert(w, type), 0x1p-53);
  }
  Value w = words(shape);
  w = b.shift_right_logical(w, b.constant_int(DType::kU32, 32 - bits, shape));
  return b.mul_scalar(b.convert(w, type), 1.0 / static_cast<double>(int64_t{1} << bits));
}

Value RandomSource::uniform_positive(DType dtype, const Shape& shape) {
  const DType type = opmath(dtype);
  if (type == DType::kF64) {
    Value w = b.shift_right_logical(words64(shape), b.constant_int(DType::kU64, 11, shape));
    return b.mul_scalar(b.add_scalar(b.convert(w, type), 1), 0x1p-53);
  }
  // Words near 2^32 round up to it, which stands for 1.
  return b.mul_scalar(b.add_scalar(b.convert(words(shape), type), 1), 0x1p-32);
}

Value RandomSource::normal(DType dtype, const Shape& shape) {
  if (is_complex(dtype)) {
    Shape pairs = shape;
    pairs.insert(pairs.begin(), 2);
    Value n = b.mul_scalar(normal(real_of(dtype), pairs), std::numbers::sqrt2 / 2);
    auto part = [&](int64_t i) { return b.squeeze_dim(b.slice_dim(n, 0, i, i + 1), 0); };
    return b.complex(part(0), part(1));
  }
  const DType type = opmath(dtype);
  const int64_t n = torch_tpu::numel(shape);
  const Shape half{(n + 1) / 2};
  Value radius = b.sqrt(b.mul_scalar(b.log(uniform_positive(type, half)), -2));
  Value angle = b.mul_scalar(uniform(type, half), 2 * std::numbers::pi);
  const Value parts[] = {b.multiply(radius, b.cosine(angle)), b.multiply(radius, b.sine(angle))};
  return b.reshape(b.slice_dim(b.concatenate(parts, 0), 0, 0, n), shape);
}

Value RandomSource::exponential(DType dtype, const Shape& shape) {
  Value e = b.negate(b.log(uniform_positive(dtype, shape)));
  // uniform_positive is 1 once in 2^25 draws.
  return b.maximum(e, b.full_like(e, e.dtype() == DType::kF64 ? 0x1p-54 : 0x1p-26));
}

Value sample_by_rejection(Lowering& b, const TensorType& type, int64_t words,
                          const std::function<Proposal(RandomSource&)>& attempt) {
  constexpr int64_t kRounds = 256;
  Value first = b.random_state();
  // A source may round each of its draws up to a block.
  const int64_t per_round = words * Lowering::random_blocks_of({type.numel() + 1});
  b.advance_random(kRounds * per_round);
  const IntList dims = Lowering::all_dims(type.rank());
  const Values result = b.while_loop(
      Values{b.constant_int(DType::kS32, 0), b.full(type, 0),
             b.constant_int(DType::kPred, 0, type.shape), first},
      [&](std::span<const Value> a) {
        Value done = b.all(a[2], dims);
        Value more = b.compare(a[0], b.constant_int(DType::kS32, kRounds), Compare::kLt);
        return Values{b.and_(b.not_(done), more)};
      },
      [&](std::span<const Value> a) {
        RandomSource source(b, a[3]);
        const Proposal p = attempt(source);
        const int64_t advance[] = {0, per_round};
        return Values{b.add(a[0], b.constant_int(DType::kS32, 1)), b.select(a[2], a[1], p.value),
                      b.or_(a[2], p.accepted), b.add(a[3], b.constant_list(DType::kU64, advance))};
      });
  return result[1];
}

}  // namespace torch_tpu::lowering
