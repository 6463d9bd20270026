#pragma once

#include <complex>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stablehlo/tensor_type.h"

namespace torch_tpu::stablehlo {

// A handle on an SSA value of a ProgramBuilder; cheap to copy, valid as long as the builder lives.
class Value {
 public:
  Value() = default;
  bool defined() const { return type_ != nullptr; }
  const TensorType& type() const { return *type_; }
  DType dtype() const { return type_->dtype; }
  const Shape& shape() const { return type_->shape; }
  int64_t rank() const { return type_->rank(); }
  int64_t dim(int64_t i) const { return type_->shape[static_cast<size_t>(i < 0 ? i + rank() : i)]; }
  int64_t numel() const { return type_->numel(); }
  uint32_t id() const { return id_; }
  bool operator==(const Value& other) const { return id_ == other.id_ && type_ == other.type_; }

 private:
  friend class ProgramBuilder;
  Value(uint32_t id, const TensorType* type) : type_(type), id_(id) {}
  const TensorType* type_ = nullptr;
  uint32_t id_ = 0;
};

using Values = std::vector<Value>;

enum class Compare { kEq, kNe, kLt, kLe, kGt, kGe };
enum class Fft { kFft, kIfft, kRfft, kIrfft };
enum class RngAlgorithm { kDefault, kThreeFry, kPhilox };
enum class Transpose { kNone, kTranspose, kAdjoint };

// Combiners of reductions and scatters; kOverwrite is for scatter only (the update wins).
enum class Combiner { kAdd, kMul, kMax, kMin, kAnd, kOr, kOverwrite };

// StableHLO `precision_config`: one, three or six bfloat16 passes for float32 on a TPU.
enum class Precision { kDefault, kHigh, kHighest };

struct DotDims {
  std::vector<int64_t> lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};

struct WindowDims {
  std::vector<int64_t> window, strides, base_dilation, window_dilation;  // empty: all ones
  std::vector<int64_t> pad_low, pad_high;                                // empty: zeros
};

// Input [batch, feature, spatial...] by the positions given (StableHLO convolution dimension
// numbers).
struct ConvDims {
  int64_t input_batch = 0, input_feature = 1;
  std::vector<int64_t> input_spatial;
  int64_t kernel_output_feature = 0, kernel_input_feature = 1;
  std::vector<int64_t> kernel_spatial;
  int64_t output_batch = 0, output_feature = 1;
  std::vector<int64_t> output_spatial;
  std::vector<int64_t> strides, pad_low, pad_high, lhs_dilation, rhs_dilation;
  std::vector<bool> reversal;  // empty: none
  int64_t feature_groups = 1, batch_groups = 1;
};

struct GatherDims {
  std::vector<int64_t> offset_dims, collapsed_slice_dims, start_index_map;
  std::vector<int64_t> operand_batching_dims, start_indices_batching_dims;
  int64_t index_vector_dim = 0;
  std::vector<int64_t> slice_sizes;
  bool indices_are_sorted = false;
};

struct ScatterDims {
  std::vector<int64_t> update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims;
  std::vector<int64_t> input_batching_dims, scatter_indices_batching_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false, unique_indices = false;
};

// Appends StableHLO operations to one function `main` and prints the module. Every method infers
// the type of its result and rejects operands that break the constraints of the StableHLO
// specification with an Error (Internal) naming the operation, the constraint and the operand
// types.
class ProgramBuilder {
 public:
  using Region = std::function<Values(std::span<const Value>)>;

  ProgramBuilder() = default;
  ProgramBuilder(const ProgramBuilder&) = delete;
  ProgramBuilder& operator=(const ProgramBuilder&) = delete;

  // --- the function
  Value parameter(const TensorType& type);
  size_t num_parameters() const { return parameters_.size(); }
  const TensorType& parameter_type(size_t i) const { return parameters_[i].type(); }
  // The parameter's buffer may be reused for output `output` (tf.aliasing_output).
  void alias_parameter(size_t parameter, size_t output);
  // Finishes the program with these results and returns the module text: no locations, numbered
  // values, so equal programs print equal.
  std::string finish(const Values& results);

  // --- constants
  Value constant(DType dtype, double value, const Shape& shape = {});
  Value constant_int(DType dtype, int64_t value, const Shape& shape = {});
  Value constant_complex(DType dtype, std::complex<double> value, const Shape& shape = {});
  // One-dimensional (or reshaped to `shape`) integer or float constant.
  Value constant_list(DType dtype, std::span<const int64_t> values, const Shape& shape = {});
  Value constant_floats(DType dtype, std::span<const double> values, const Shape& shape = {});
  Value iota(const TensorType& type, int64_t dim);
  Value min_value(DType dtype, const Shape& shape = {});  // lowest finite / integer minimum; false
  Value max_value(DType dtype, const Shape& shape = {});
  Value neg_inf(DType dtype, const Shape& shape = {});  // -inf for floats, minimum for integers
  Value pos_inf(DType dtype, const Shape& shape = {});
  Value nan(DType dtype, const Shape& shape = {});

  // --- elementwise, operands of one type (no broadcasting here)
  Value abs(Value x);  // complex gives real
  Value negate(Value x);
  Value sign(Value x);
  Value ceil(Value x);
  Value floor(Value x);
  Value round_even(Value x);
  Value round_afz(Value x);
  Value exp(Value x);
  Value expm1(Value x);
  Value log(Value x);
  Value log1p(Value x);
  Value logistic(Value x);
  Value tanh(Value x);
  Value sqrt(Value x);
  Value rsqrt(Value x);
  Value cbrt(Value x);
  Value sine(Value x);
  Value cosine(Value x);
  Value tan(Value x);
  Value not_(Value x);  // bitwise, or logical for pred
  Value popcnt(Value x);
  Value clz(Value x);
  Value is_finite(Value x);  // pred
  Value real(Value x);
  Value imag(Value x);
  Value complex(Value re, Value im);
  // chlo functions: erf, erfc, erf_inv, lgamma, digamma, bessel_i1e, acos, asin, atan, acosh,
  // asinh, atanh, sinh, cosh, is_inf, is_pos_inf, is_neg_inf (the last three give pred).
  Value chlo(std::string_view name, Value x);
  Value chlo(std::string_view name, Value x, Value y);  // next_after, zeta, polygamma

  Value add(Value x, Value y);
  Value subtract(Value x, Value y);
  Value multiply(Value x, Value y);
  Value divide(Value x, Value y);     // integers truncate towards zero
  Value remainder(Value x, Value y);  // sign of the dividend
  Value power(Value x, Value y);
  Value maximum(Value x, Value y);
  Value minimum(Value x, Value y);
  Value and_(Value x, Value y);
  Value or_(Value x, Value y);
  Value xor_(Value x, Value y);
  Value shift_left(Value x, Value y);
  Value shift_right_arithmetic(Value x, Value y);
  Value shift_right_logical(Value x, Value y);
  Value atan2(Value x, Value y);
  // kEq..kGe; `total_order` compares floats by IEEE total order (-NaN < -inf < ... < inf < NaN).
  Value compare(Value x, Value y, Compare direction, bool total_order = false);
  Value select(Value pred, Value on_true, Value on_false);  // pred: same shape or scalar
  Value clamp(Value low, Value x, Value high);              // low, high: same shape or scalar

  // --- types
  Value convert(Value x,
                DType dtype);  // no op when equal; complex to real drops the imaginary part
  Value bitcast_convert(Value x,
                        DType dtype);  // widths may differ: StableHLO's extra minor dimension
  Value reduce_precision(Value x, int exponent_bits, int mantissa_bits);

  // --- shapes
  Value reshape(Value x, const Shape& shape);
  Value transpose(Value x, std::span<const int64_t> permutation);
  Value broadcast_in_dim(Value x, const Shape& shape, std::span<const int64_t> dims);
  Value slice(Value x, std::span<const int64_t> start, std::span<const int64_t> limit,
              std::span<const int64_t> strides = {});
  Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
  Value dynamic_slice(Value x, std::span<const Value> start, std::span<const int64_t> sizes);
  Value dynamic_update_slice(Value x, Value update, std::span<const Value> start);
  Value concatenate(std::span<const Value> xs, int64_t dim);
  // Negative padding crops. `value` is a scalar.
  Value pad(Value x, Value value, std::span<const int64_t> low, std::span<const int64_t> high,
            std::span<const int64_t> interior = {});
  Value reverse(Value x, std::span<const int64_t> dims);
  Value set_dimension_size(Value x, Value size, int64_t dim);

  // --- indexing
  Value gather(Value operand, Value indices, const GatherDims& dims);
  Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims,
                Combiner combiner);

  // --- reductions; `init` are scalars
  Value reduce(Value x, Value init, std::span<const int64_t> dims, Combiner combiner);
  Values reduce(std::span<const Value> xs, std::span<const Value> inits,
                std::span<const int64_t> dims,
                const Region& body);  // body: 2n scalars (accumulators, elements) -> n scalars
  Value reduce_window(Value x, Value init, const WindowDims& window, Combiner combiner);
  Values reduce_window(std::span<const Value> xs, std::span<const Value> inits,
                       const WindowDims& window, const Region& body);
  // select picks the window element (pred of two scalars), scatter adds.
  Value select_and_scatter(Value operand, Value source, Value init, const WindowDims& window,
                           Compare select, Combiner scatter);
  // comparator: 2n scalars (lhs0, rhs0, lhs1, rhs1, ...) -> one pred.
  Values sort(std::span<const Value> xs, int64_t dim, bool stable, const Region& comparator);
  Values top_k(Value x, int64_t k);  // chlo.top_k on the last dimension: values and int32 indices

  // --- contractions
  Value dot_general(Value lhs, Value rhs, const DotDims& dims, DType result,
                    Precision precision = Precision::kDefault);
  Value convolution(Value input, Value kernel, const ConvDims& dims, DType result,
                    Precision precision = Precision::kDefault);

  // --- the rest
  Value fft(Value x, Fft type, std::span<const int64_t> lengths);
  Value cholesky(Value x, bool lower);
  Value triangular_solve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal,
                         Transpose transpose);
  // state: ui64[2] (Philox, ThreeFry) -> new state and bits of `type` (ui32 or ui64)
  Values rng_bit_generator(Value state, const TensorType& type, RngAlgorithm algorithm);
  Values optimization_barrier(std::span<const Value> xs);
  Value optimization_barrier(Value x);
  Values custom_call(std::string_view target, std::span<const Value> operands,
                     std::span<const TensorType> results, std::string_view extra_attributes = "");
  Values while_loop(std::span<const Value> init, const Region& condition, const Region& body);
  Values if_else(Value pred, const std::function<Values()>& on_true,
                 const std::function<Values()>& on_false);

  // Whether a maximum or minimum over elements has been taken whose NaN a user could see.
  // Reductions made while `exempt_extrema` is set (softmax's inner maximum) don't count.
  bool has_observable_extremum() const { return observable_extremum_; }
  void exempt_extrema(bool exempt) { exempt_extrema_ = exempt; }

  // Number of operations appended so far.
  size_t num_operations() const { return num_operations_; }

 protected:
  // Appends `"op"(operands) {attributes} : types` and returns its results.
  Values emit(std::string_view op, std::span<const Value> operands,
              std::span<const TensorType> results, std::string_view attributes = "",
              std::span<const std::string> regions = {});
  Value emit1(std::string_view op, std::span<const Value> operands, const TensorType& result,
              std::string_view attributes = "");

 private:
  Value unary(std::string_view op, Value x);
  Value binary(std::string_view op, Value x, Value y);
  Value new_value(const TensorType& type);
  // Prints a region whose block takes `types`; the text includes the terminator.
  std::string region(std::span<const TensorType> types, const Region& body,
                     Values* results = nullptr);
  Region combiner_region(Combiner combiner);

  std::string body_;
  Values parameters_;
  std::vector<std::optional<size_t>> aliases_;
  std::deque<TensorType> types_;
  std::unordered_map<std::string, Value> constants_;
  bool observable_extremum_ = false;
  bool exempt_extrema_ = false;
  int region_depth_ = 0;
  uint32_t next_id_ = 0;
  size_t num_operations_ = 0;
};

}  // namespace torch_tpu::stablehlo
