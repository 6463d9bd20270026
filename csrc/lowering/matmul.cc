#include <algorithm>
#include <array>

#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

using stablehlo::DotDims;

// Half types are accumulated, scaled and added in float32 and rounded once.
DType accumulator(DType t) { return opmath(t); }

Value product_mm(Lowering& b, Value x, Value y, DType result) {
  return b.dot(x, y,
               DotDims{.lhs_batch = {}, .rhs_batch = {}, .lhs_contract = {1}, .rhs_contract = {0}},
               result);
}

Value product_bmm(Lowering& b, Value x, Value y, DType result) {
  return b.dot(
      x, y, DotDims{.lhs_batch = {0}, .rhs_batch = {0}, .lhs_contract = {2}, .rhs_contract = {1}},
      result);
}

// First dimensions of both contracted away entirely or in part: [.., k] x [k].
Value product_mv(Lowering& b, Value x, Value y, DType result) {
  return b.dot(
      x, y,
      DotDims{
          .lhs_batch = {}, .rhs_batch = {}, .lhs_contract = {x.rank() - 1}, .rhs_contract = {0}},
      result);
}

bool is_constant(const Operand& operand, double v) {
  return operand.constant() && !operand.constant()->is_complex() &&
         operand.constant()->to_double() == v;
}

Value scaled(Lowering& b, const Operand& factor, Value x) {
  if (is_constant(factor, 1)) return x;
  Value f = b.number_like(factor, x);
  return is_bool(x.dtype()) ? b.and_(f, x) : b.multiply(f, x);
}

// beta * self + alpha * product, where beta = 0 ignores whatever self holds.
Value add_scaled(Lowering& b, Value self, Value product, const Operand& beta,
                 const Operand& alpha) {
  Value rest = scaled(b, alpha, product);
  if (is_constant(beta, 0)) return rest;
  self = b.broadcast(b.convert(self, rest.dtype()), rest.shape());
  Value term = scaled(b, beta, self);
  if (!beta.constant() && !is_integral(term.dtype())) {
    Value factor = b.number(beta, term.dtype());
    term =
        b.select(b.compare(factor, b.zeros_like(factor), Compare::kEq), b.zeros_like(term), term);
  }
  return b.badd(term, rest);
}

Value mm(Lowering& b, Value self, Value mat2) { return product_mm(b, self, mat2, self.dtype()); }

Value mm_dtype(Lowering& b, Value self, Value mat2, DType out_dtype) {
  return product_mm(b, self, mat2, out_dtype);
}

Value bmm(Lowering& b, Value self, Value mat2) { return product_bmm(b, self, mat2, self.dtype()); }

Value bmm_dtype(Lowering& b, Value self, Value mat2, DType out_dtype) {
  return product_bmm(b, self, mat2, out_dtype);
}

Value addmm(Lowering& b, Value self, Value mat1, Value mat2, Operand beta, Operand alpha) {
  return add_scaled(b, self, product_mm(b, mat1, mat2, accumulator(mat1.dtype())), beta, alpha);
}

Value addmm_dtype(Lowering& b, Value self, Value mat1, Value mat2, DType out_dtype, Operand beta,
                  Operand alpha) {
  return add_scaled(b, self, product_mm(b, mat1, mat2, accumulator(out_dtype)), beta, alpha);
}

Value baddbmm(Lowering& b, Value self, Value batch1, Value batch2, Operand beta, Operand alpha) {
  return add_scaled(b, self, product_bmm(b, batch1, batch2, accumulator(batch1.dtype())), beta,
                    alpha);
}

Value baddbmm_dtype(Lowering& b, Value self, Value batch1, Value batch2, DType out_dtype,
                    Operand beta, Operand alpha) {
  return add_scaled(b, self, product_bmm(b, batch1, batch2, accumulator(out_dtype)), beta, alpha);
}

// The sum over the batch is part of the contraction: [b, n, k] x [b, k, m] -> [n, m].
Value addbmm(Lowering& b, Value self, Value batch1, Value batch2, Operand beta, Operand alpha) {
  Value product = b.dot(
      batch1, batch2,
      DotDims{.lhs_batch = {}, .rhs_batch = {}, .lhs_contract = {0, 2}, .rhs_contract = {0, 1}},
      accumulator(batch1.dtype()));
  return add_scaled(b, self, product, beta, alpha);
}

Value mv(Lowering& b, Value self, Value vec) { return product_mv(b, self, vec, self.dtype()); }

Value addmv(Lowering& b, Value self, Value mat, Value vec, Operand beta, Operand alpha) {
  return add_scaled(b, self, product_mv(b, mat, vec, accumulator(mat.dtype())), beta, alpha);
}

// An elementwise operator on the CPU: half types round after each step, alpha goes with vec1.
Value addr(Lowering& b, Value self, Value vec1, Value vec2, Operand beta, Operand alpha) {
  Value outer = b.bmul(b.unsqueeze(scaled(b, alpha, vec1), 1), b.unsqueeze(vec2, 0));
  return add_scaled(b, self, outer, beta, Operand(Scalar::of(int64_t{1})));
}

Value dot(Lowering& b, Value self, Value tensor) {
  return product_mv(b, self, tensor, self.dtype());
}

Value vdot(Lowering& b, Value self, Value other) {
  if (is_complex(self.dtype())) self = b.complex(b.real(self), b.negate(b.imag(self)));
  return dot(b, self, other);
}

// PyTorch's CPU kernel takes the exact GELU here; cuBLAS's epilogue is the tanh form.
Value addmm_activation(Lowering& b, Value self, Value mat1, Value mat2, Operand beta, Operand alpha,
                       bool use_gelu) {
  Value x = addmm(b, self, mat1, mat2, beta, alpha);
  if (!use_gelu) return b.maximum(x, b.zeros_like(x));
  Value cdf =
      b.mul_scalar(b.add_scalar(b.chlo("erf", b.mul_scalar(x, 0.70710678118654752440)), 1), 0.5);
  return b.multiply(x, cdf);
}

Value int_mm(Lowering& b, Value self, Value mat2) {
  TT_CHECK(self.dtype() == DType::kS8 && mat2.dtype() == DType::kS8, kInvalidArgument,
           "_int_mm: expected int8 matrices, got ", mlir_name(self.dtype()), " and ",
           mlir_name(mat2.dtype()));
  return b.dot_general(
      self, mat2,
      DotDims{.lhs_batch = {}, .rhs_batch = {}, .lhs_contract = {1}, .rhs_contract = {0}},
      DType::kS32);
}

// self [m, k], mat2 int8 [n, k] with one scale per row.
Value weight_int8pack_mm(Lowering& b, Value self, Value mat2, Value scales) {
  Value product =
      b.dot(b.convert(self, DType::kF32), b.convert(mat2, DType::kF32),
            DotDims{.lhs_batch = {}, .rhs_batch = {}, .lhs_contract = {1}, .rhs_contract = {1}});
  return b.bmul(product, b.convert(scales, DType::kF32));
}

// Scales are one number, or one per row of self and one per column of mat2.
Value scaled_mm(Lowering& b, Value self, Value mat2, Value scale_a, Value scale_b,
                std::optional<Value> bias, std::optional<Value> scale_result,
                std::optional<DType> out_dtype) {
  auto as_factor = [&](Value scale, const Shape& per_line) {
    if (scale.numel() == 1) return b.reshape(scale, {});
    TT_CHECK(scale.shape() == per_line, kInvalidArgument, "_scaled_mm: scales of shape ",
             to_string(scale.shape()), " are neither one number nor ", to_string(per_line));
    return scale;
  };
  Value out = product_mm(b, self, mat2, DType::kF32);
  out = b.bmul(out, as_factor(scale_a, {self.dim(0), 1}));
  out = b.bmul(out, as_factor(scale_b, {1, mat2.dim(1)}));
  if (bias) out = b.badd(out, b.convert(*bias, DType::kF32));
  if (scale_result && is_float8(out_dtype.value_or(self.dtype())))
    out = b.bmul(out, b.reshape(*scale_result, {}));
  return out;
}

// --- _trilinear

// A tensor over some of the dimensions 0..n-1 of a common index space, in ascending order.
struct Indexed {
  Value value;
  IntList dims;
  bool has(int64_t d) const { return std::find(dims.begin(), dims.end(), d) != dims.end(); }
};

bool contains(const IntList& list, int64_t d) {
  return std::find(list.begin(), list.end(), d) != list.end();
}

Indexed indexed(Lowering& b, Value x, const IntList& missing, int64_t rank) {
  Indexed out;
  Shape shape;
  int64_t i = 0;
  for (int64_t d = 0; d < rank; ++d) {
    if (contains(missing, d)) continue;
    const int64_t size = x.dim(i++);
    if (size == 1) continue;  // broadcasts
    out.dims.push_back(d);
    shape.push_back(size);
  }
  out.value = b.reshape(x, shape);
  return out;
}

// Product of two tensors, summed over the dimensions in `sum`.
Indexed contract(Lowering& b, const Indexed& x, const Indexed& y, const IntList& sum) {
  DotDims dims;
  IntList batch, free;
  for (size_t i = 0; i < x.dims.size(); ++i) {
    const auto j = std::find(y.dims.begin(), y.dims.end(), x.dims[i]);
    if (j == y.dims.end()) {
      free.push_back(x.dims[i]);
      continue;
    }
    const bool summed = contains(sum, x.dims[i]);
    (summed ? dims.lhs_contract : dims.lhs_batch).push_back(static_cast<int64_t>(i));
    (summed ? dims.rhs_contract : dims.rhs_batch).push_back(j - y.dims.begin());
    if (!summed) batch.push_back(x.dims[i]);
  }
  for (int64_t d : y.dims) {
    if (!x.has(d)) free.push_back(d);
  }
  Indexed out{b.dot(x.value, y.value, dims), batch};
  out.dims.insert(out.dims.end(), free.begin(), free.end());
  IntList order = Lowering::all_dims(out.value.rank());
  std::sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return out.dims[static_cast<size_t>(i)] < out.dims[static_cast<size_t>(j)];
  });
  out.value = b.transpose(out.value, order);
  std::sort(out.dims.begin(), out.dims.end());
  // What only one factor has is summed alone.
  IntList alone, kept;
  for (size_t i = 0; i < out.dims.size(); ++i) {
    if (contains(sum, out.dims[i])) {
      alone.push_back(static_cast<int64_t>(i));
    } else {
      kept.push_back(out.dims[i]);
    }
  }
  out.value = b.sum(out.value, alone);
  out.dims = kept;
  return out;
}

// sum over sumdim of i1 * i2 * i3, each unsqueezed at its expand dimensions; as two contractions.
Value trilinear(Lowering& b, Value i1, Value i2, Value i3, IntList expand1, IntList expand2,
                IntList expand3, IntList sumdim) {
  const int64_t rank = i1.rank() + static_cast<int64_t>(expand1.size());
  const std::array<Value, 3> given = {i1, i2, i3};
  const std::array<IntList, 3> missing = {expand1, expand2, expand3};
  std::array<Indexed, 3> in;
  Shape full(static_cast<size_t>(rank), 1);
  for (size_t k = 0; k < 3; ++k) {
    in[k] = indexed(b, given[k], missing[k], rank);
    for (size_t i = 0; i < in[k].dims.size(); ++i)
      full[static_cast<size_t>(in[k].dims[i])] = in[k].value.shape()[i];
  }
  // The first pair is the one that can sum the most away before the third factor comes in.
  auto summable = [&](size_t x, size_t y) {
    IntList out;
    for (int64_t d : sumdim) {
      if ((in[x].has(d) || in[y].has(d)) && !in[3 - x - y].has(d)) out.push_back(d);
    }
    return out;
  };
  std::pair<size_t, size_t> first{0, 1};
  for (auto pair : {std::pair<size_t, size_t>{0, 2}, std::pair<size_t, size_t>{1, 2}}) {
    if (summable(pair.first, pair.second).size() > summable(first.first, first.second).size())
      first = pair;
  }
  Indexed product =
      contract(b, in[first.first], in[first.second], summable(first.first, first.second));
  product = contract(b, product, in[3 - first.first - first.second], sumdim);
  return b.reshape(product.value, Lowering::reduced_shape(full, sumdim, false));
}

}  // namespace

void register_matmul(OperatorTable& table) {
  table.add("mm", mm);
  table.add("mm.dtype", mm_dtype);
  table.add("bmm", bmm);
  table.add("bmm.dtype", bmm_dtype);
  table.add("addmm", addmm);
  table.add("addmm.dtype", addmm_dtype);
  table.add("baddbmm", baddbmm);
  table.add("baddbmm.dtype", baddbmm_dtype);
  table.add("addbmm", addbmm);
  table.add("mv", mv);
  table.add("addmv", addmv);
  table.add("addr", addr, {.promotion = Promotion::kResult});
  table.add("dot", dot);
  table.add("vdot", vdot);
  table.add("_addmm_activation", addmm_activation);
  table.add("_int_mm", int_mm);
  table.add("_weight_int8pack_mm", weight_int8pack_mm);
  table.add("_scaled_mm", scaled_mm);
  table.add("_trilinear", trilinear, {.promotion = Promotion::kResult});
}

}  // namespace torch_tpu::lowering
