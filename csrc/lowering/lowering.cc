#include "lowering/lowering.h"

#include <algorithm>

#include "lowering/philox.h"

namespace torch_tpu::lowering {

using stablehlo::DotDims;

void Lowering::begin_call(std::string op_name, std::vector<TensorType> outputs) {
  op_name_ = std::move(op_name);
  outputs_ = std::move(outputs);
  contiguous_.clear();
}

void Lowering::not_implemented(std::string_view what) const {
  fail(ErrorKind::kNotImplemented, op_name_, ": ", what, " is not implemented for device tpu");
}

// --- numbers

Value Lowering::scalar(DType dtype, const Scalar& v) {
  if (is_complex(dtype)) return constant_complex(dtype, v.is_complex() ? v.c : v.to_double());
  if (is_float(dtype)) return constant(dtype, v.to_double());
  if (is_bool(dtype)) return constant_int(dtype, v.is_integral() ? v.i != 0 : v.c != 0.0);
  return constant_int(dtype, v.to_int());
}

Value Lowering::number(const Operand& operand, DType dtype) {
  return operand.constant() ? scalar(dtype, *operand.constant()) : convert(operand.value(), dtype);
}

Value Lowering::number_like(const Operand& operand, Value like) {
  return broadcast_in_dim(number(operand, like.dtype()), like.shape(), {});
}

// --- shapes

int64_t Lowering::wrap_dim(int64_t dim, int64_t rank) {
  const int64_t n = std::max<int64_t>(rank, 1);
  TT_CHECK(dim >= -n && dim < n, kIndex, "Dimension out of range (expected to be in range of [", -n,
           ", ", n - 1, "], but got ", dim, ")");
  return dim < 0 ? dim + n : dim;
}

IntList Lowering::wrap_dims(std::span<const int64_t> dims, int64_t rank) {
  IntList out;
  for (int64_t d : dims) {
    const int64_t w = wrap_dim(d, rank);
    if (rank > 0) out.push_back(w);
  }
  return out;
}

IntList Lowering::all_dims(int64_t rank) {
  IntList out(static_cast<size_t>(rank));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<int64_t>(i);
  return out;
}

Value Lowering::broadcast(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  IntList dims(static_cast<size_t>(x.rank()));
  const int64_t shift = static_cast<int64_t>(shape.size()) - x.rank();
  for (size_t i = 0; i < dims.size(); ++i) dims[i] = static_cast<int64_t>(i) + shift;
  return broadcast_in_dim(x, shape, dims);
}

Shape Lowering::broadcast_shapes(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t k = out.size() - i;  // position from the end
    const int64_t x = k <= a.size() ? a[a.size() - k] : 1;
    const int64_t y = k <= b.size() ? b[b.size() - k] : 1;
    TT_CHECK(x == y || x == 1 || y == 1, kInvalidArgument, "The size of tensor a (", x,
             ") must match the size of tensor b (", y, ") at non-singleton dimension ", i);
    out[i] = x == 1 ? y : x;
  }
  return out;
}

void Lowering::broadcast_pair(Value& x, Value& y) {
  if (x.shape() == y.shape()) return;
  const Shape shape = broadcast_shapes(x.shape(), y.shape());
  x = broadcast(x, shape);
  y = broadcast(y, shape);
}

Value Lowering::unsqueeze(Value x, int64_t dim) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + wrap_dim(dim, x.rank() + 1), 1);
  return reshape(x, shape);
}

Value Lowering::squeeze_dim(Value x, int64_t dim) {
  if (x.rank() == 0) return x;
  Shape shape = x.shape();
  shape.erase(shape.begin() + wrap_dim(dim, x.rank()));
  return reshape(x, shape);
}

Value Lowering::expand_dims_at(Value x, std::span<const int64_t> dims) {
  Shape shape = x.shape();
  for (int64_t d : dims) shape.insert(shape.begin() + d, 1);
  return reshape(x, shape);
}

Value Lowering::permute(Value x, std::initializer_list<int64_t> dims) {
  return transpose(x, std::span(dims.begin(), dims.size()));
}

Value Lowering::transpose_last_two(Value x) {
  IntList dims = all_dims(x.rank());
  std::swap(dims[dims.size() - 1], dims[dims.size() - 2]);
  return transpose(x, dims);
}

Value Lowering::move_dim(Value x, int64_t from, int64_t to) {
  from = wrap_dim(from, x.rank());
  to = wrap_dim(to, x.rank());
  if (x.rank() == 0) return x;
  IntList dims = all_dims(x.rank());
  dims.erase(dims.begin() + from);
  dims.insert(dims.begin() + to, from);
  return transpose(x, dims);
}

// --- arithmetic

Value Lowering::badd(Value x, Value y) {
  broadcast_pair(x, y);
  return is_bool(x.dtype()) ? or_(x, y) : add(x, y);
}

Value Lowering::bsub(Value x, Value y) {
  broadcast_pair(x, y);
  return subtract(x, y);
}

Value Lowering::bmul(Value x, Value y) {
  broadcast_pair(x, y);
  return is_bool(x.dtype()) ? and_(x, y) : multiply(x, y);
}

Value Lowering::bcompare(Value x, Value y, Compare direction) {
  broadcast_pair(x, y);
  return compare(x, y, direction);
}

Value Lowering::bselect(Value pred, Value x, Value y) {
  broadcast_pair(x, y);
  if (pred.rank() != 0) {
    const Shape shape = broadcast_shapes(pred.shape(), x.shape());
    pred = broadcast(pred, shape);
    x = broadcast(x, shape);
    y = broadcast(y, shape);
  }
  return select(pred, x, y);
}

Value Lowering::bdiv(Value x, Value y) {
  // A divisor that is a constant or a broadcast scalar would become a multiplication.
  const bool hide = y.numel() < x.numel() || y.numel() == 1;
  broadcast_pair(x, y);
  if (hide && is_float(y.dtype())) y = optimization_barrier(y);
  return divide(x, y);
}

Value Lowering::bmax(Value x, Value y) {
  broadcast_pair(x, y);
  return maximum(x, y);
}

Value Lowering::bmin(Value x, Value y) {
  broadcast_pair(x, y);
  return minimum(x, y);
}

Value Lowering::is_nan(Value x) {
  if (is_integral(x.dtype())) return constant_int(DType::kPred, 0, x.shape());
  if (is_complex(x.dtype())) return or_(is_nan(real(x)), is_nan(imag(x)));
  return compare(x, x, Compare::kNe);
}

// --- reductions

Shape Lowering::reduced_shape(const Shape& shape, std::span<const int64_t> dims, bool keepdim) {
  Shape out;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (std::find(dims.begin(), dims.end(), static_cast<int64_t>(i)) == dims.end()) {
      out.push_back(shape[i]);
    } else if (keepdim) {
      out.push_back(1);
    }
  }
  return out;
}

namespace {

Value reduced(Lowering& b, Value x, Value init, std::span<const int64_t> raw, bool keepdim,
              Combiner combiner) {
  const IntList dims = Lowering::wrap_dims(raw, x.rank());
  if (dims.empty()) return x;
  Value r = b.reduce(x, init, dims, combiner);
  return keepdim ? b.reshape(r, Lowering::reduced_shape(x.shape(), dims, true)) : r;
}

}  // namespace

Value Lowering::sum(Value x, std::span<const int64_t> dims, bool keepdim) {
  return reduced(*this, x, constant(x.dtype(), 0), dims, keepdim, Combiner::kAdd);
}

Value Lowering::product(Value x, std::span<const int64_t> dims, bool keepdim) {
  return reduced(*this, x, constant(x.dtype(), 1), dims, keepdim, Combiner::kMul);
}

Value Lowering::reduce_max(Value x, std::span<const int64_t> dims, bool keepdim) {
  return reduced(*this, x, neg_inf(x.dtype()), dims, keepdim, Combiner::kMax);
}

Value Lowering::reduce_min(Value x, std::span<const int64_t> dims, bool keepdim) {
  return reduced(*this, x, pos_inf(x.dtype()), dims, keepdim, Combiner::kMin);
}

Value Lowering::any(Value pred, std::span<const int64_t> dims, bool keepdim) {
  return reduced(*this, pred, constant_int(DType::kPred, 0), dims, keepdim, Combiner::kOr);
}

Value Lowering::all(Value pred, std::span<const int64_t> dims, bool keepdim) {
  return reduced(*this, pred, constant_int(DType::kPred, 1), dims, keepdim, Combiner::kAnd);
}

Value Lowering::mean(Value x, std::span<const int64_t> raw, bool keepdim) {
  const IntList dims = wrap_dims(raw, x.rank());
  int64_t n = 1;
  for (int64_t d : dims) n *= x.dim(d);
  Value total = sum(x, dims, keepdim);
  return bdiv(total, constant(x.dtype(), static_cast<double>(n)));
}

Value Lowering::sum_to(Value x, const Shape& shape) {
  if (x.shape() == shape) return x;
  IntList dims;
  const int64_t shift = x.rank() - static_cast<int64_t>(shape.size());
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i < shift || (shape[static_cast<size_t>(i - shift)] == 1 && x.dim(i) != 1))
      dims.push_back(i);
  }
  return reshape(sum(x, dims), shape);
}

// --- contractions

namespace {

// The value rounded to bfloat16, kept in float32.
Value rounded(Lowering& b, Value x) { return b.reduce_precision(x, 8, 7); }

// Sums of products of the bfloat16 parts of two float32 operands, as a TPU's matrix unit forms
// them: one product at "default", three at "high", six at "highest" precision. Smallest terms
// first.
template <typename Product>
Value in_passes(Lowering& b, Value lhs, Value rhs, Precision precision, const Product& product) {
  Value l0 = rounded(b, lhs);
  Value r0 = rounded(b, rhs);
  if (precision == Precision::kDefault) return product(l0, r0);
  Value l_rest = b.subtract(lhs, l0);
  Value r_rest = b.subtract(rhs, r0);
  Value l1 = rounded(b, l_rest);
  Value r1 = rounded(b, r_rest);
  Value small = b.add(product(l0, r1), product(l1, r0));
  if (precision == Precision::kHighest) {
    Value l2 = rounded(b, b.subtract(l_rest, l1));
    Value r2 = rounded(b, b.subtract(r_rest, r1));
    Value smaller = b.add(b.add(product(l0, r2), product(l2, r0)), product(l1, r1));
    small = b.add(smaller, small);
  }
  return b.add(small, product(l0, r0));
}

template <typename Product>
Value contract(Lowering& b, Value lhs, Value rhs, DType result, const Product& product) {
  const DType type = lhs.dtype();
  TT_CHECK(type == rhs.dtype(), kInvalidArgument, b.op_name(),
           ": expected both operands to have the same dtype, but got ", mlir_name(type), " and ",
           mlir_name(rhs.dtype()));
  if (is_bool(type)) {
    return b.convert(product(b.convert(lhs, DType::kS32), b.convert(rhs, DType::kS32), DType::kS32),
                     result);
  }
  if (type == DType::kF32 && b.settings().emulate_mxu) {
    return b.convert(in_passes(b, lhs, rhs, b.settings().float32_matmul,
                               [&](Value x, Value y) { return product(x, y, DType::kF32); }),
                     result);
  }
  if (is_float8(type) || (type == DType::kF16 && b.settings().is_cpu)) {
    return b.convert(product(b.convert(lhs, DType::kF32), b.convert(rhs, DType::kF32), DType::kF32),
                     result);
  }
  if (is_half(type)) return b.convert(product(lhs, rhs, DType::kF32), result);
  return b.convert(product(lhs, rhs, type), result);
}

}  // namespace

Value Lowering::dot(Value lhs, Value rhs, const DotDims& dims, std::optional<DType> result) {
  const DType out = result.value_or(lhs.dtype());
  return contract(*this, lhs, rhs, out, [&](Value x, Value y, DType accumulate) {
    return dot_general(x, y, dims, accumulate, settings_.float32_matmul);
  });
}

Value Lowering::conv(Value input, Value kernel, const stablehlo::ConvDims& dims,
                     std::optional<DType> result) {
  const DType out = result.value_or(input.dtype());
  return contract(*this, input, kernel, out, [&](Value x, Value y, DType accumulate) {
    return convolution(x, y, dims, accumulate, settings_.float32_matmul);
  });
}

Value Lowering::matmul2d(Value a, Value b) {
  DotDims dims;
  dims.lhs_contract = {1};
  dims.rhs_contract = {0};
  return dot(a, b, dims);
}

// --- random

Value Lowering::random_state() {
  if (!random_parameter_) {
    random_parameter_ = num_parameters();
    random_state_ = parameter({DType::kU64, {2}});
  }
  if (random_blocks_ == 0) return random_state_;
  const int64_t advance[] = {0, random_blocks_};
  return add(random_state_, constant_list(DType::kU64, advance));
}

Value Lowering::random_words(const Shape& shape) {
  Value words = random_words_at(random_state(), shape);
  advance_random(random_blocks_of(shape));
  return words;
}

Value Lowering::random_words_at(Value state, const Shape& shape) {
  const int64_t n = torch_tpu::numel(shape);
  if (n == 0) return constant_int(DType::kU32, 0, shape);
  const int64_t blocks = random_blocks_of(shape);
  // Philox4x32-10; element i is word (i div blocks) of block (i mod blocks), so that the four words
  // of all blocks lie in four planes.
  Value bits;
  if (settings_.is_cpu) {
    bits =
        rng_bit_generator(state, {DType::kU32, {blocks * 4}}, stablehlo::RngAlgorithm::kPhilox)[1];
    bits = flatten(permute(reshape(bits, {blocks, 4}), {1, 0}));
  } else {
    bits = philox_words(*this, state, blocks);
  }
  return reshape(slice_dim(bits, 0, 0, n), shape);
}

}  // namespace torch_tpu::lowering
