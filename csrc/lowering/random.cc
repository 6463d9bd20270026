#include <limits>
#include <numbers>

#include "lowering/families.h"
#include "lowering/operator_table.h"
#include "lowering/random_numbers.h"
#include "lowering/samplers.h"

namespace torch_tpu::lowering {
namespace {

// In-place generators take `self` for its shape and type only.

DType number_type(Value x) { return is_integral(x.dtype()) ? DType::kF32 : opmath(x.dtype()); }

// Both parts of complex numbers are drawn, beside each other.
Value uniform(Lowering& b, Value self, Operand from, Operand to) {
  if (is_complex(self.dtype())) {
    Shape parts = self.shape();
    parts.push_back(2);
    Value drawn = uniform(b, b.constant(real_of(self.dtype()), 0, parts), from, to);
    auto part = [&](int64_t i) {
      return b.reshape(b.slice_dim(drawn, self.rank(), i, i + 1), self.shape());
    };
    return b.complex(part(0), part(1));
  }
  const DType dtype = number_type(self);
  Value low = b.number(from, dtype);
  Value high = b.number(to, dtype);
  Value u = RandomSource(b).uniform(self.dtype(), self.shape());
  Value x = b.badd(b.bmul(u, b.subtract(high, low)), low);
  // Rounding may reach the excluded end, in the narrow type at the latest.
  x = b.convert(x, self.dtype());
  high = b.convert(high, self.dtype());
  low = b.convert(low, self.dtype());
  Value in_range = b.bcompare(x, high, Compare::kLt);
  return b.bselect(in_range, x, low);
}

Value normal(Lowering& b, Value self, Operand mean, Operand std) {
  Value z = RandomSource(b).normal(self.dtype(), self.shape());
  return b.add(b.multiply(z, b.number_like(std, z)), b.number_like(mean, z));
}

Value scaled_normal(Lowering& b, Value mean, Value std) {
  const DType dtype = opmath(mean.dtype());
  mean = b.convert(mean, dtype);
  std = b.convert(std, real_of(dtype));
  const Shape shape = Lowering::broadcast_shapes(mean.shape(), std.shape());
  Value z = RandomSource(b).normal(dtype, shape);
  return b.badd(b.bmul(z, b.convert(std, dtype)), mean);
}

Value normal_tensor_float(Lowering& b, Value mean, Operand std) {
  return scaled_normal(b, mean, b.number(std, real_of(opmath(mean.dtype()))));
}

Value normal_float_tensor(Lowering& b, Operand mean, Value std) {
  return scaled_normal(b, b.number(mean, opmath(b.out().dtype)), std);
}

Value normal_factory(Lowering& b, Operand mean, Operand std, IntList size) {
  Value z = RandomSource(b).normal(b.out().dtype, size);
  return b.add(b.multiply(z, b.number_like(std, z)), b.number_like(mean, z));
}

// Words modulo the range, as PyTorch's CPU generator; 64 bits keep the bias below 2^-32 for ranges
// of up to 32 bits. A range of 0 stands for 2^64.
Value integers(Lowering& b, Value self, Value low, Value range) {
  Value bits = RandomSource(b).words64(self.shape());
  range = b.broadcast(range, self.shape());
  Value whole = b.compare(range, b.zeros_like(range), Compare::kEq);
  Value offset =
      b.select(whole, bits, b.remainder(bits, b.select(whole, b.full_like(range, 1), range)));
  Value x = b.bitcast_convert(b.badd(offset, b.bitcast_convert(low, DType::kU64)), DType::kS64);
  return b.convert(x, self.dtype());
}

// Largest integer up to which all are values of the type.
int64_t last_integer(DType dtype) {
  switch (dtype) {
    case DType::kPred:
      return 1;
    case DType::kU8:
      return 255;
    case DType::kS8:
      return 127;
    case DType::kS16:
      return 32767;
    case DType::kU16:
      return 65535;
    case DType::kS32:
      return std::numeric_limits<int32_t>::max();
    case DType::kU32:
      return std::numeric_limits<uint32_t>::max();
    case DType::kF16:
      return int64_t{1} << 11;
    case DType::kBF16:
      return int64_t{1} << 8;
    case DType::kF32:
      return int64_t{1} << 24;
    case DType::kF64:
      return int64_t{1} << 53;
    default:
      return std::numeric_limits<int64_t>::max();
  }
}

Value random_to_end(Lowering& b, Value self, Value low) {
  const int64_t last = last_integer(self.dtype());
  Value end = b.constant_int(DType::kU64, static_cast<int64_t>(static_cast<uint64_t>(last) + 1));
  return integers(b, self, low, b.subtract(end, b.bitcast_convert(low, DType::kU64)));
}

Value random(Lowering& b, Value self) {
  return random_to_end(b, self, b.constant_int(DType::kS64, 0));
}

Value random_from(Lowering& b, Value self, Operand from, std::optional<Operand> to) {
  Value low = b.number(from, DType::kS64);
  if (!to) return random_to_end(b, self, low);
  Value range = b.subtract(b.number(*to, DType::kS64), low);
  return integers(b, self, low, b.bitcast_convert(range, DType::kU64));
}

Value random_to(Lowering& b, Value self, Operand to) {
  Value end = b.number(to, DType::kS64);
  return integers(b, self, b.constant_int(DType::kS64, 0), b.bitcast_convert(end, DType::kU64));
}

Value exponential(Lowering& b, Value self, Operand rate) {
  Value e = RandomSource(b).exponential(number_type(self), self.shape());
  return b.divide(e, b.number_like(rate, e));
}

// The number of Bernoulli trials up to the first success: 1, 2, ...
Value geometric(Lowering& b, Value self, Operand p) {
  const DType dtype = self.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Value u = RandomSource(b).uniform_positive(dtype, self.shape());
  Value failures = b.log1p(b.negate(b.number_like(p, u)));
  Value trials = b.ceil(b.divide(b.log(u), failures));
  return b.convert(b.maximum(trials, b.full_like(trials, 1)), self.dtype());
}

Value cauchy(Lowering& b, Value self, Operand median, Operand sigma) {
  Value u = RandomSource(b).uniform(number_type(self), self.shape());
  Value x = b.tan(b.mul_scalar(b.add_scalar(u, -0.5), std::numbers::pi));
  return b.add(b.multiply(x, b.number_like(sigma, x)), b.number_like(median, x));
}

Value log_normal(Lowering& b, Value self, Operand mean, Operand std) {
  return b.exp(normal(b, self, mean, std));
}

// --- Bernoulli trials

Value trials(Lowering& b, Value prob, const Shape& shape) {
  const DType dtype = prob.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  Value u = RandomSource(b).uniform(dtype, shape);
  return b.compare(u, b.broadcast(b.convert(prob, dtype), shape), Compare::kLt);
}

Value bernoulli(Lowering& b, Value self) {
  return b.convert(trials(b, self, self.shape()), self.dtype());
}

Value bernoulli_number(Lowering& b, Value self, Operand p) {
  return b.convert(trials(b, b.number(p, DType::kF32), self.shape()), self.dtype());
}

Value bernoulli_tensor(Lowering& b, Value self, Value p) {
  return b.convert(trials(b, p, self.shape()), self.dtype());
}

std::pair<Value, Value> native_dropout(Lowering& b, Value input, Operand p,
                                       std::optional<bool> train) {
  if (!train.value_or(true)) return {input, b.constant_int(DType::kPred, 1, input.shape())};
  const DType type = opmath(real_of(input.dtype()));
  Value drop = b.number(p, type);
  Value one = b.constant(type, 1);
  Value mask = trials(b, b.subtract(one, drop), input.shape());
  Value all = b.compare(drop, one, Compare::kGe);
  Value scale = b.select(all, b.constant(type, 0), b.divide(one, b.subtract(one, drop)));
  const DType wide = opmath(input.dtype());
  Value factor = b.bselect(mask, b.convert(scale, wide), b.constant(wide, 0));
  return {b.convert(b.multiply(b.convert(input, wide), factor), input.dtype()), mask};
}

// A number times integers is floating.
Value native_dropout_backward(Lowering& b, Value grad, Value mask, Operand scale) {
  const DType wide = opmath(b.out().dtype);
  Value factor = b.bmul(b.convert(mask, wide), b.number(scale, wide));
  return b.bmul(b.convert(grad, wide), factor);
}

// --- randomised leaky ReLU

Value middle(Lowering& b, const Operand& lower, const Operand& upper, Value like) {
  return b.mul_scalar(b.add(b.number_like(lower, like), b.number_like(upper, like)), 0.5);
}

std::pair<Value, Value> rrelu_with_noise(Lowering& b, Value self, Value noise, Operand lower,
                                         Operand upper, bool training) {
  const DType wide = opmath(self.dtype());
  Value x = b.convert(self, wide);
  Value negative = b.compare(x, b.zeros_like(x), Compare::kLe);
  if (!training) {
    Value y = b.select(negative, b.multiply(x, middle(b, lower, upper, x)), x);
    return {b.convert(y, self.dtype()), noise};
  }
  Value low = b.number_like(lower, x);
  Value slope = b.add(b.multiply(RandomSource(b).uniform(self.dtype(), self.shape()),
                                 b.subtract(b.number_like(upper, x), low)),
                      low);
  slope = b.convert(b.convert(b.select(negative, slope, b.full_like(x, 1)), self.dtype()), wide);
  return {b.convert(b.multiply(x, slope), self.dtype()), b.convert(slope, noise.dtype())};
}

Value rrelu_with_noise_backward(Lowering& b, Value grad, Value self, Value noise, double lower,
                                double upper, bool training, bool /*self_is_result*/) {
  if (training && upper - lower > 1e-6) return b.bmul(grad, noise);
  Value negative = b.compare(self, b.zeros_like(self), Compare::kLe);
  return b.select(negative, b.mul_scalar(grad, (lower + upper) / 2), grad);
}

// Sorting random keys; 64-bit ones once 32-bit keys would often be equal.
Value randperm(Lowering& b, int64_t n) {
  const TensorType index{DType::kS32, {n}};
  if (n < 2) return b.convert(b.full(index, 0), b.out().dtype);
  RandomSource source(b);
  const Value operands[] = {n < (1 << 14) ? source.words({n}) : source.words64({n}),
                            b.iota(index, 0)};
  Values sorted = b.sort(operands, 0, true, [&](std::span<const Value> a) {
    return Values{b.compare(a[0], a[1], Compare::kLt)};
  });
  return b.convert(sorted[1], b.out().dtype);
}

}  // namespace

void register_random(OperatorTable& table) {
  constexpr RuleOptions kRandom{.random = true};
  table.add("uniform", uniform, kRandom);
  table.add("normal_functional", normal, kRandom);
  table.add("normal.Tensor_float", normal_tensor_float, kRandom);
  table.add("normal.float_Tensor", normal_float_tensor, kRandom);
  table.add("normal.Tensor_Tensor", scaled_normal, kRandom);
  table.add("normal.float_float", normal_factory, kRandom);
  table.add("random", random, kRandom);
  table.add("random.from", random_from, kRandom);
  table.add("random.to", random_to, kRandom);
  table.add("exponential", exponential, kRandom);
  table.add("geometric", geometric, kRandom);
  table.add("cauchy", cauchy, kRandom);
  table.add("log_normal", log_normal, kRandom);
  table.add("bernoulli", bernoulli, kRandom);
  table.add("bernoulli.p", bernoulli_number, kRandom);
  table.add("bernoulli.Tensor", bernoulli_tensor, kRandom);
  table.add("native_dropout", native_dropout, kRandom);
  table.add("native_dropout_backward", native_dropout_backward);
  table.add("rrelu_with_noise", rrelu_with_noise, kRandom);
  table.add("rrelu_with_noise_", rrelu_with_noise, kRandom);
  table.add("rrelu_with_noise_functional", rrelu_with_noise, kRandom);
  table.add("rrelu_with_noise_backward", rrelu_with_noise_backward,
            {.promotion = Promotion::kResult, .opmath = true});
  table.add("randperm", randperm, kRandom);
  table.add("randperm.generator", randperm, kRandom);
  table.add("poisson", poisson, kRandom);
  table.add("binomial", binomial, kRandom);
  table.add("_standard_gamma", standard_gamma, kRandom);
  table.add("_sample_dirichlet", sample_dirichlet, kRandom);
  table.add("multinomial", multinomial, kRandom);
  register_sampler_gradients(table);
}

}  // namespace torch_tpu::lowering
