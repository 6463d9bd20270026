#include <cmath>

#include "lowering/extremum.h"
#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

using Dims = std::optional<IntList>;

// PyTorch reduces over everything where no dimension is named.
IntList named_or_all(const Dims& dims, Value x) {
  return dims && !dims->empty() ? Lowering::wrap_dims(*dims, x.rank())
                                : Lowering::all_dims(x.rank());
}

int64_t count(Value x, const IntList& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= x.dim(d);
  return n;
}

// The operand in the type of the result, widened to the type sums are kept in.
Value accumulated(Lowering& b, Value x) {
  const DType result = b.out().dtype;
  return b.convert(b.convert(x, result), opmath(result));
}

// --- sums and products

Value sum_dims(Lowering& b, Value x, Dims dims, bool keepdim, std::optional<DType>) {
  return b.sum(accumulated(b, x), named_or_all(dims, x), keepdim);
}

Value sum_all(Lowering& b, Value x, std::optional<DType>) {
  return b.sum(accumulated(b, x), Lowering::all_dims(x.rank()));
}

Value nansum(Lowering& b, Value x, Dims dims, bool keepdim, std::optional<DType>) {
  Value numbers = b.select(b.is_nan(x), b.zeros_like(x), x);
  return b.sum(accumulated(b, numbers), named_or_all(dims, x), keepdim);
}

Value prod_dim(Lowering& b, Value x, int64_t dim, bool keepdim, std::optional<DType>) {
  return b.product(accumulated(b, x), std::span(&dim, 1), keepdim);
}

Value prod_all(Lowering& b, Value x, std::optional<DType>) {
  return b.product(accumulated(b, x), Lowering::all_dims(x.rank()));
}

Value mean_dims(Lowering& b, Value x, Dims dims, bool keepdim, std::optional<DType>) {
  return b.mean(accumulated(b, x), named_or_all(dims, x), keepdim);
}

Value mean_all(Lowering& b, Value x, std::optional<DType>) {
  return b.mean(accumulated(b, x), Lowering::all_dims(x.rank()));
}

Value count_nonzero_dims(Lowering& b, Value x, IntList dims) {
  return b.sum(b.convert(b.convert(x, DType::kPred), DType::kS64), named_or_all(dims, x));
}

Value count_nonzero(Lowering& b, Value x, std::optional<int64_t> dim) {
  return count_nonzero_dims(b, x, dim ? IntList{*dim} : IntList{});
}

// --- truth

Value truth(Lowering& b, Value x, const IntList& dims, bool keepdim, bool any) {
  Value p = b.convert(x, DType::kPred);
  return any ? b.any(p, dims, keepdim) : b.all(p, dims, keepdim);
}

// any.dims and all.dims leave the tensor alone where the list of dimensions is empty.
Value truth_dims(Lowering& b, Value x, const Dims& dims, bool keepdim, bool any) {
  const bool untouched = dims && dims->empty() && b.out().shape == x.shape();
  return truth(b, x, untouched ? IntList{} : named_or_all(dims, x), keepdim, any);
}

Value any_all(Lowering& b, Value x) {
  return truth(b, x, Lowering::all_dims(x.rank()), false, true);
}
Value any_dim(Lowering& b, Value x, int64_t dim, bool keepdim) {
  return truth(b, x, {dim}, keepdim, true);
}
Value any_dims(Lowering& b, Value x, Dims dims, bool keepdim) {
  return truth_dims(b, x, dims, keepdim, true);
}
Value all_all(Lowering& b, Value x) {
  return truth(b, x, Lowering::all_dims(x.rank()), false, false);
}
Value all_dim(Lowering& b, Value x, int64_t dim, bool keepdim) {
  return truth(b, x, {dim}, keepdim, false);
}
Value all_dims(Lowering& b, Value x, Dims dims, bool keepdim) {
  return truth_dims(b, x, dims, keepdim, false);
}

// --- spread

Value square_of_modulus(Lowering& b, Value x) {
  if (!is_complex(x.dtype())) return b.multiply(x, x);
  Value re = b.real(x);
  Value im = b.imag(x);
  return b.add(b.multiply(re, re), b.multiply(im, im));
}

// {variance, mean}: sum |x - mean|^2 / max(0, n - correction), in two passes.
Values var_mean(Lowering& b, Value x, Dims named, std::optional<Scalar> correction, bool keepdim) {
  const IntList dims = named_or_all(named, x);
  Value mean = b.mean(x, dims, true);
  Value total = b.sum(square_of_modulus(b, b.bsub(x, mean)), dims, keepdim);
  const double n = static_cast<double>(count(x, dims));
  const double divisor = std::max(0.0, n - (correction ? correction->to_double() : 1.0));
  Value var = b.bdiv(total, b.constant(total.dtype(), divisor));
  return {var, b.reshape(mean, var.shape())};
}

Value var(Lowering& b, Value x, Dims dims, std::optional<Scalar> correction, bool keepdim) {
  return var_mean(b, x, dims, correction, keepdim)[0];
}

Value std_(Lowering& b, Value x, Dims dims, std::optional<Scalar> correction, bool keepdim) {
  return b.sqrt(var(b, x, dims, correction, keepdim));
}

Values std_mean(Lowering& b, Value x, Dims dims, std::optional<Scalar> correction, bool keepdim) {
  Values r = var_mean(b, x, dims, correction, keepdim);
  return {b.sqrt(r[0]), r[1]};
}

// --- norms

// (sum |x|^p)^(1/p) with its limits at 0 and the infinities.
Value vector_norm(Lowering& b, Value x, double p, const IntList& dims, bool keepdim) {
  if (p == 2.0) return b.sqrt(b.sum(square_of_modulus(b, x), dims, keepdim));
  Value modulus = b.abs(x);
  if (std::isinf(p))
    return reduce_extremum(b, modulus, dims, keepdim, p > 0 ? Combiner::kMax : Combiner::kMin);
  if (p == 0.0) {
    Value nonzero = b.compare(modulus, b.zeros_like(modulus), Compare::kNe);
    return b.sum(b.convert(nonzero, modulus.dtype()), dims, keepdim);
  }
  if (p == 1.0) return b.sum(modulus, dims, keepdim);
  Value total = b.sum(b.power(modulus, b.full_like(modulus, p)), dims, keepdim);
  return b.power(total, b.full_like(total, 1.0 / p));
}

// The operand in the type the norm is computed in: that of the result, complex where x is.
Value norm_operand(Lowering& b, Value x, std::optional<DType> dtype) {
  const DType result = dtype.value_or(b.out().dtype);
  x = b.convert(x, is_complex(x.dtype()) ? complex_of(result) : real_of(result));
  return b.convert(x, opmath(x.dtype()));
}

Value linalg_vector_norm(Lowering& b, Value x, Scalar p, Dims dims, bool keepdim,
                         std::optional<DType> dtype) {
  const IntList over = named_or_all(dims, x);
  TT_CHECK(p.to_double() >= 0 || count(x, over) > 0 || std::isinf(p.to_double()) == false,
           kInvalidArgument, "linalg.vector_norm cannot compute the ", p.to_double(),
           " norm on an empty tensor");
  return vector_norm(b, norm_operand(b, x, dtype), p.to_double(), over, keepdim);
}

Value norm_dims(Lowering& b, Value x, std::optional<Scalar> p, IntList dims, bool keepdim) {
  return linalg_vector_norm(b, x, p.value_or(Scalar::of(2.0)), dims, keepdim, {});
}

Value norm_dims_dtype(Lowering& b, Value x, std::optional<Scalar> p, IntList dims, bool keepdim,
                      DType dtype) {
  return linalg_vector_norm(b, x, p.value_or(Scalar::of(2.0)), dims, keepdim, dtype);
}

Value norm_all(Lowering& b, Value x, Scalar p) {
  return linalg_vector_norm(b, x, p, {}, false, {});
}

Value norm_all_dtype(Lowering& b, Value x, std::optional<Scalar> p, DType dtype) {
  return linalg_vector_norm(b, x, p.value_or(Scalar::of(2.0)), {}, false, dtype);
}

// sum |x|^p, the part of a norm that adds up across shards.
Value powsum(Lowering& b, Value x, Scalar ord, Dims dims, bool keepdim,
             std::optional<DType> dtype) {
  Value modulus = b.abs(norm_operand(b, x, dtype));
  const double p = ord.to_double();
  Value powers = p == 1.0   ? modulus
                 : p == 2.0 ? b.multiply(modulus, modulus)
                            : b.power(modulus, b.full_like(modulus, p));
  return b.sum(powers, named_or_all(dims, x), keepdim);
}

// --- the rest

// log sum exp, shifted by the maximum where that is finite.
Value logsumexp(Lowering& b, Value x, IntList named, bool keepdim) {
  const IntList dims = named_or_all(named, x);
  Value highest = x.numel() == 0 ? b.zeros_like(b.sum(b.real(x), dims, true))
                                 : b.reduce_max(b.real(x), dims, true);
  Value infinite =
      b.compare(b.abs(highest), b.pos_inf(highest.dtype(), highest.shape()), Compare::kEq);
  highest = b.convert(b.select(infinite, b.zeros_like(highest), highest), x.dtype());
  Value total = b.log(b.sum(b.exp(b.bsub(x, highest)), dims, true));
  return b.reshape(b.badd(total, highest), Lowering::reduced_shape(x.shape(), dims, keepdim));
}

// xor of the elements as 64-bit words: integers by value, floats by the bits of their double.
Value hash_tensor(Lowering& b, Value x, IntList named, bool keepdim, int64_t mode) {
  if (mode != 0) b.not_implemented("a mode of hash_tensor other than 0");
  const IntList dims = named_or_all(named, x);
  Value words = is_integral(x.dtype()) ? b.convert(b.convert(x, DType::kS64), DType::kU64)
                                       : b.bitcast_convert(b.convert(x, DType::kF64), DType::kU64);
  Value zero = b.constant_int(DType::kU64, 0);
  Value r =
      dims.empty()
          ? words
          : b.reduce(std::span(&words, 1), std::span(&zero, 1), dims,
                     [&](std::span<const Value> a) -> Values { return {b.xor_(a[0], a[1])}; })[0];
  return b.reshape(r, Lowering::reduced_shape(x.shape(), dims, keepdim));
}

}  // namespace

void register_reduction(OperatorTable& table) {
  register_extremum(table);
  register_distance(table);
  table.add("sum", sum_all);
  table.add("sum.dim_IntList", sum_dims);
  table.add("nansum", nansum);
  table.add("prod", prod_all);
  table.add("prod.dim_int", prod_dim);
  table.add("mean", mean_all);
  table.add("mean.dim", mean_dims);
  table.add("count_nonzero", count_nonzero);
  table.add("count_nonzero.dim_IntList", count_nonzero_dims);
  table.add("any", any_all);
  table.add("any.dim", any_dim);
  table.add("any.dims", any_dims);
  table.add("all", all_all);
  table.add("all.dim", all_dim);
  table.add("all.dims", all_dims);
  const RuleOptions wide = {.opmath = true};
  table.add("var.correction", var, wide);
  table.add("std.correction", std_, wide);
  table.add("var_mean.correction", var_mean, wide);
  table.add("std_mean.correction", std_mean, wide);
  table.add("linalg_vector_norm", linalg_vector_norm);
  table.add("linalg__powsum", powsum);
  table.add("norm.Scalar", norm_all);
  table.add("norm.ScalarOpt_dtype", norm_all_dtype);
  table.add("norm.ScalarOpt_dim", norm_dims);
  table.add("norm.ScalarOpt_dim_dtype", norm_dims_dtype);
  table.add("logsumexp", logsumexp, {.promotion = Promotion::kFloat, .opmath = true});
  table.add("hash_tensor", hash_tensor);
}

}  // namespace torch_tpu::lowering
