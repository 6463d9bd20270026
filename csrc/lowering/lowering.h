#pragma once

#include <complex>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "stablehlo/program_builder.h"

namespace torch_tpu::lowering {

using stablehlo::Combiner;
using stablehlo::Compare;
using stablehlo::Precision;
using stablehlo::Value;
using stablehlo::Values;
using IntList = std::vector<int64_t>;

// A Python number whose value is part of the program (an exponent, a threshold count, a flag).
struct Scalar {
  enum class Kind : uint8_t { kBool, kInt, kDouble, kComplex };
  Kind kind = Kind::kInt;
  int64_t i = 0;
  std::complex<double> c = 0;  // the real part holds a double

  static Scalar of(int64_t v) { return {Kind::kInt, v, static_cast<double>(v)}; }
  static Scalar of(double v) { return {Kind::kDouble, static_cast<int64_t>(v), v}; }
  static Scalar of(bool v) { return {Kind::kBool, v ? 1 : 0, v ? 1.0 : 0.0}; }
  static Scalar of(std::complex<double> v) {
    return {Kind::kComplex, static_cast<int64_t>(v.real()), v};
  }

  bool is_integral() const { return kind <= Kind::kInt; }
  bool is_complex() const { return kind == Kind::kComplex; }
  double to_double() const { return is_integral() ? static_cast<double>(i) : c.real(); }
  int64_t to_int() const { return is_integral() ? i : static_cast<int64_t>(c.real()); }
  bool operator==(const Scalar&) const = default;
};

// A Python number that takes part in arithmetic. In eager it is a 0-d operand of the program, so
// that another value reuses the program; where the caller knows the value for good, it is a
// constant.
class Operand {
 public:
  Operand() = default;
  explicit Operand(Value value, Scalar::Kind kind) : value_(value), kind_(kind) {}
  explicit Operand(Scalar constant) : constant_(constant), kind_(constant.kind) {}
  Scalar::Kind kind() const { return kind_; }
  // The value where the caller made it a constant.
  const std::optional<Scalar>& constant() const { return constant_; }
  // Defined unless it is a constant; 0-d, of PyTorch's opmath type.
  Value value() const { return value_; }

 private:
  Value value_;
  std::optional<Scalar> constant_;
  Scalar::Kind kind_ = Scalar::Kind::kInt;
};

// Arguments that don't matter to a program (layout, device, pin_memory, generator, memory_format).
struct Ignored {};

// What a program may depend on besides its operands; part of every key.
struct Settings {
  Precision float32_matmul = Precision::kHighest;
  bool emulate_mxu = false;    // round float32 matrix operands to 1, 3 or 6 bfloat16 passes
  bool deterministic = false;  // torch.use_deterministic_algorithms
  bool is_cpu = true;          // forms chosen for XLA's CPU compiler rather than a TPU's
  bool operator==(const Settings&) const = default;
};

// A ProgramBuilder with the vocabulary that rules share. Rules see logical tensors only: promotion,
// views, strides, `out=` and in-place are the frame's.
class Lowering : public stablehlo::ProgramBuilder {
 public:
  explicit Lowering(Settings settings) : settings_(settings) {}
  const Settings& settings() const { return settings_; }

  // Types PyTorch's meta kernel gave for the results of the call being lowered (logical shapes).
  const TensorType& out(size_t i = 0) const { return outputs_.at(i); }
  size_t num_outputs() const { return outputs_.size(); }
  // Whether tensor argument `i` of the call is contiguous. It matters only where PyTorch's
  // derivative formulas read it off the operand's strides, as for the factors _linalg_det saves.
  bool contiguous_argument(size_t i) const { return i >= contiguous_.size() || contiguous_[i]; }
  // The name of the operator being lowered, for messages: "aten::add.Tensor".
  const std::string& op_name() const { return op_name_; }

  // --- numbers
  Value scalar(DType dtype, double v) { return constant(dtype, v); }
  Value scalar(DType dtype, const Scalar& v);
  Value full(const TensorType& type, double v) { return constant(type.dtype, v, type.shape); }
  Value full_like(Value x, double v) { return constant(x.dtype(), v, x.shape()); }
  Value zeros_like(Value x) { return constant(x.dtype(), 0, x.shape()); }
  // The operand as a 0-d value of `dtype`.
  Value number(const Operand& operand, DType dtype);
  // The operand as a tensor of the shape and type of `like`.
  Value number_like(const Operand& operand, Value like);

  // --- shapes (dimensions may be negative)
  static int64_t wrap_dim(int64_t dim, int64_t rank);  // 0-d tensors count as rank 1
  static IntList wrap_dims(std::span<const int64_t> dims, int64_t rank);
  static IntList all_dims(int64_t rank);
  Value broadcast(Value x, const Shape& shape);  // PyTorch broadcasting: trailing dimensions align
  static Shape broadcast_shapes(const Shape& a, const Shape& b);
  void broadcast_pair(Value& x, Value& y);
  Value unsqueeze(Value x, int64_t dim);
  Value squeeze_dim(Value x, int64_t dim);
  Value expand_dims_at(Value x,
                       std::span<const int64_t> dims);  // ascending positions in the result
  Value permute(Value x, std::initializer_list<int64_t> dims);
  Value transpose_last_two(Value x);
  Value flatten(Value x) { return reshape(x, {x.numel()}); }
  Value move_dim(Value x, int64_t from, int64_t to);
  Value iota_like(Value x, DType dtype, int64_t dim) { return iota({dtype, x.shape()}, dim); }

  // --- arithmetic with broadcasting; operands must have one element type
  Value badd(Value x, Value y);
  Value bsub(Value x, Value y);
  Value bmul(Value x, Value y);
  Value bcompare(Value x, Value y, Compare direction);
  Value bselect(Value pred, Value x, Value y);
  // True division that XLA can't turn into multiplication by a reciprocal.
  Value bdiv(Value x, Value y);
  // PyTorch's maximum and minimum: NaN wins.
  Value bmax(Value x, Value y);
  Value bmin(Value x, Value y);
  // Arithmetic with a constant of the value's type.
  Value add_scalar(Value x, double c) { return add(x, full_like(x, c)); }
  Value mul_scalar(Value x, double c) { return multiply(x, full_like(x, c)); }
  Value is_nan(Value x);  // pred; false for integers
  Value logical_not(Value x) { return not_(x); }

  // --- reductions over `dims` (empty: nothing is reduced)
  Value sum(Value x, std::span<const int64_t> dims, bool keepdim = false);
  Value product(Value x, std::span<const int64_t> dims, bool keepdim = false);
  Value reduce_max(Value x, std::span<const int64_t> dims, bool keepdim = false);
  Value reduce_min(Value x, std::span<const int64_t> dims, bool keepdim = false);
  Value any(Value pred, std::span<const int64_t> dims, bool keepdim = false);
  Value all(Value pred, std::span<const int64_t> dims, bool keepdim = false);
  Value mean(Value x, std::span<const int64_t> dims, bool keepdim = false);
  // Sums broadcast dimensions away so that the result has `shape` (gradients of broadcasting).
  Value sum_to(Value x, const Shape& shape);
  static Shape reduced_shape(const Shape& shape, std::span<const int64_t> dims, bool keepdim);

  // --- contractions in the precision the settings ask for; half types accumulate in float32 and
  // the result has `result` (default: the operands' type)
  Value dot(Value lhs, Value rhs, const stablehlo::DotDims& dims, std::optional<DType> result = {});
  Value conv(Value input, Value kernel, const stablehlo::ConvDims& dims,
             std::optional<DType> result = {});
  Value matmul2d(Value a, Value b);  // [m, k] x [k, n]

  // --- random: words that are a function of (seed, offset), see random_bits in lowering_forms
  // n = numel(shape) uint32 words; each call advances the program's offset.
  Value random_words(const Shape& shape);
  // The generator's state {seed, offset} (uint64[2]) at this point of the program.
  Value random_state();
  // The words which random_words would give at `state`; does not advance the program's offset.
  Value random_words_at(Value state, const Shape& shape);
  // Blocks of four words that one draw of `shape` takes.
  static int64_t random_blocks_of(const Shape& shape) { return (torch_tpu::numel(shape) + 3) / 4; }
  void advance_random(int64_t blocks) { random_blocks_ += blocks; }
  // uint64[2] = {seed, offset} parameter, made at the first request.
  bool uses_random() const { return random_parameter_.has_value(); }
  std::optional<size_t> random_parameter() const { return random_parameter_; }
  // Philox blocks of four words consumed so far: what the generator must advance by.
  int64_t random_blocks() const { return random_blocks_; }

  [[noreturn]] void not_implemented(std::string_view what) const;

  // --- the frame's side
  void begin_call(std::string op_name, std::vector<TensorType> outputs);
  // By argument position; what isn't given counts as contiguous. Reset by begin_call.
  void set_contiguous_arguments(std::vector<bool> contiguous) {
    contiguous_ = std::move(contiguous);
  }

 private:
  Settings settings_;
  std::vector<TensorType> outputs_;
  std::string op_name_;
  std::vector<bool> contiguous_;
  std::optional<size_t> random_parameter_;
  Value random_state_;
  int64_t random_blocks_ = 0;
};

}  // namespace torch_tpu::lowering
