#include <algorithm>
#include <numeric>

#include "lowering/factorisation.h"
#include "lowering/families.h"
#include "lowering/least_squares.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::Transpose;

Shape batch_of(Value x) { return {x.shape().begin(), x.shape().end() - 2}; }

Shape with(Shape batch, std::initializer_list<int64_t> dims) {
  batch.insert(batch.end(), dims);
  return batch;
}

// [..., r, c] with batch dimensions broadcast to `batch`, as [n, r, c].
Value spread(Lowering& b, Value x, const Shape& batch) {
  return as_batch(b, b.broadcast(x, with(batch, {x.dim(-2), x.dim(-1)})));
}

// The result with the batch dimensions of a call: [n, rest...] -> [batch..., rest...].
Value unbatch(Lowering& b, Value x, const Shape& batch) {
  Shape shape = batch;
  shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
  return b.reshape(x, shape);
}

void check_square(Lowering& b, Value a) {
  TT_CHECK(a.rank() >= 2, kInvalidArgument, b.op_name(),
           ": The input tensor must have at least 2 dimensions.");
  TT_CHECK(a.dim(-1) == a.dim(-2), kInvalidArgument, b.op_name(),
           ": A must be batches of square matrices, but they are ", a.dim(-2), " by ", a.dim(-1),
           " matrices");
}

// --- Cholesky

std::pair<Value, Value> cholesky_ex(Lowering& b, Value a, bool upper) {
  check_square(b, a);
  const Shape batch = batch_of(a);
  Value x = as_batch(b, a);
  const Cholesky c = cholesky_factor(b, upper ? adjoint(b, x) : x);
  return {unbatch(b, upper ? adjoint(b, c.factor) : c.factor, batch), unbatch(b, c.info, batch)};
}

// Solves (L L^H) X = B or (U^H U) X = B.
Value cholesky_solve_batch(Lowering& b, Value factor, Value rhs, bool upper) {
  if (rhs.numel() == 0) return rhs;
  Value y = b.triangular_solve(factor, rhs, true, !upper, false,
                               upper ? Transpose::kAdjoint : Transpose::kNone);
  return b.triangular_solve(factor, y, true, !upper, false,
                            upper ? Transpose::kNone : Transpose::kAdjoint);
}

Value cholesky_solve(Lowering& b, Value rhs, Value factor, bool upper) {
  const Shape batch = Lowering::broadcast_shapes(batch_of(rhs), batch_of(factor));
  return unbatch(b, cholesky_solve_batch(b, spread(b, factor, batch), spread(b, rhs, batch), upper),
                 batch);
}

Value cholesky_inverse(Lowering& b, Value factor, bool upper) {
  check_square(b, factor);
  Value x = as_batch(b, factor);
  return unbatch(b, cholesky_solve_batch(b, x, identity(b, x.dtype(), x.shape()), upper),
                 batch_of(factor));
}

// --- triangular systems

Value solve_triangular(Lowering& b, Value a, Value rhs, bool upper, bool left, bool unit) {
  const Shape batch = Lowering::broadcast_shapes(batch_of(a), batch_of(rhs));
  Value x = spread(b, rhs, batch);
  if (x.numel() != 0) {
    x = b.triangular_solve(spread(b, a, batch), x, left, !upper, unit, Transpose::kNone);
  }
  return unbatch(b, x, batch);
}

std::pair<Value, Value> triangular_solve(Lowering& b, Value rhs, Value a, bool upper,
                                         bool transpose, bool unit) {
  const Shape batch = Lowering::broadcast_shapes(batch_of(a), batch_of(rhs));
  Value matrix = spread(b, a, batch);
  Value x = spread(b, rhs, batch);
  if (x.numel() != 0) {
    x = b.triangular_solve(matrix, x, true, !upper, unit,
                           transpose ? Transpose::kTranspose : Transpose::kNone);
  }
  return {unbatch(b, x, batch), unbatch(b, matrix, batch)};
}

// --- LU

std::tuple<Value, Value, Value> lu_factor_ex(Lowering& b, Value a, bool pivot) {
  const Shape batch = batch_of(a);
  const Lu lu = lu_factor(b, as_batch(b, a), pivot);
  return {unbatch(b, lu.factors, batch), unbatch(b, lu.pivots, batch), unbatch(b, lu.info, batch)};
}

// The matrix with a 1 in column i of row order[i]: P of A = P L U.
Value permutation_matrix(Lowering& b, Value order, DType dtype) {
  const int64_t n = order.dim(0);
  const int64_t size = order.dim(1);
  const Shape shape{n, size, size};
  const IntList by_column{0, 2};
  Value row = b.iota({DType::kS32, shape}, 1);
  return b.convert(b.compare(row, b.broadcast_in_dim(order, shape, by_column), Compare::kEq),
                   dtype);
}

std::pair<Value, Value> unpack(Lowering& b, Value factors) {
  const int64_t k = std::min(factors.dim(1), factors.dim(2));
  Value l = b.slice_dim(factors, 2, 0, k);
  l = b.add(lower_triangle(b, l, -1), identity(b, l.dtype(), l.shape()));
  return {l, upper_triangle(b, b.slice_dim(factors, 1, 0, k))};
}

std::tuple<Value, Value, Value> lu(Lowering& b, Value a, bool pivot) {
  const Shape batch = batch_of(a);
  const Lu f = lu_factor(b, as_batch(b, a), pivot);
  auto [l, u] = unpack(b, f.factors);
  Value p;
  if (pivot) {
    Value order = permutation_of(b, f.pivots, a.dim(-2), false);
    p = unbatch(b, permutation_matrix(b, order, a.dtype()), batch);
  } else {
    p = b.full({a.dtype(), b.out(0).shape}, 0);
  }
  return {p, unbatch(b, l, batch), unbatch(b, u, batch)};
}

std::tuple<Value, Value, Value> lu_unpack(Lowering& b, Value factors, Value pivots, bool data,
                                          bool permutation) {
  const Shape batch = batch_of(factors);
  const DType dtype = factors.dtype();
  Value p = b.full({dtype, b.out(0).shape}, 0);
  Value l = b.full({dtype, b.out(1).shape}, 0);
  Value u = b.full({dtype, b.out(2).shape}, 0);
  if (permutation) {
    Value order = permutation_of(b, b.reshape(pivots, {numel(batch), pivots.dim(-1)}),
                                 factors.dim(-2), false);
    p = unbatch(b, permutation_matrix(b, order, dtype), batch);
  }
  if (data) {
    auto [lower, upper] = unpack(b, as_batch(b, factors));
    l = unbatch(b, lower, batch);
    u = unbatch(b, upper, batch);
  }
  return {p, l, u};
}

Value linalg_lu_solve(Lowering& b, Value factors, Value pivots, Value rhs, bool left,
                      bool adjoint) {
  const Shape batch = Lowering::broadcast_shapes(batch_of(factors), batch_of(rhs));
  Value order = b.broadcast(pivots, with(batch, {pivots.dim(-1)}));
  order = b.reshape(order, {numel(batch), pivots.dim(-1)});
  return unbatch(
      b, lu_solve(b, spread(b, factors, batch), order, spread(b, rhs, batch), left, adjoint),
      batch);
}

std::tuple<Value, Value, Value, Value> solve_ex(Lowering& b, Value a, Value rhs, bool left) {
  check_square(b, a);
  const Shape vectors{a.shape().begin(), a.shape().end() - 1};
  const bool vector = rhs.rank() == 1 || (rhs.rank() + 1 == a.rank() && rhs.shape() == vectors);
  TT_CHECK(left || !vector, kInvalidArgument,
           "linalg.solve: Vector broadcasting of the left hand side is not supported for "
           "left=False. In this case "
           "linalg.solve is equivalent to B / A.squeeze(-1)");
  if (vector) rhs = b.unsqueeze(rhs, -1);
  auto [factors, pivots, info] = lu_factor_ex(b, a, true);
  Value x = linalg_lu_solve(b, factors, pivots, rhs, left, false);
  return {vector ? b.squeeze_dim(x, -1) : x, factors, pivots, info};
}

std::pair<Value, Value> inv_ex(Lowering& b, Value a) {
  check_square(b, a);
  Value x = as_batch(b, a);
  const Lu f = lu_factor(b, x, true);
  Value inverse = lu_solve(b, f.factors, f.pivots, identity(b, x.dtype(), x.shape()), true, false);
  return {unbatch(b, inverse, batch_of(a)), unbatch(b, f.info, batch_of(a))};
}

// PyTorch factors the transpose of a contiguous real matrix, and its derivative relies on that.
Lu determinant_factors(Lowering& b, Value a) {
  check_square(b, a);
  Value x = as_batch(b, a);
  const bool transposed = b.contiguous_argument(0) && !is_complex(a.dtype());
  return lu_factor(b, transposed ? b.transpose_last_two(x) : x, true);
}

// 1 or -1 for each matrix: the parity of its row exchanges.
Value parity(Lowering& b, Value pivots, DType dtype) {
  Value own = b.add(b.iota(pivots.type(), 1), b.constant_int(DType::kS32, 1, pivots.shape()));
  Value moved = b.compare(pivots, own, Compare::kNe);
  Value sign =
      b.select(moved, b.full({dtype, pivots.shape()}, -1), b.full({dtype, pivots.shape()}, 1));
  const int64_t last[] = {1};
  return b.product(sign, last);
}

std::tuple<Value, Value, Value> det(Lowering& b, Value a) {
  const Shape batch = batch_of(a);
  const Lu f = determinant_factors(b, a);
  const int64_t last[] = {1};
  Value result =
      b.multiply(b.product(diagonal(b, f.factors), last), parity(b, f.pivots, a.dtype()));
  return {unbatch(b, result, batch), unbatch(b, f.factors, batch), unbatch(b, f.pivots, batch)};
}

std::tuple<Value, Value, Value, Value> slogdet(Lowering& b, Value a) {
  const Shape batch = batch_of(a);
  const Lu f = determinant_factors(b, a);
  Value d = diagonal(b, f.factors);
  Value size = b.abs(d);
  Value sign;
  if (is_complex(a.dtype())) {
    Value zero = b.compare(size, b.zeros_like(size), Compare::kEq);
    Value divisor = b.select(zero, b.full_like(size, 1), size);
    sign = b.divide(d, b.convert(divisor, d.dtype()));
  } else {
    sign = b.sign(d);
  }
  const int64_t last[] = {1};
  sign = b.multiply(b.product(sign, last), parity(b, f.pivots, a.dtype()));
  return {unbatch(b, sign, batch), unbatch(b, b.sum(b.log(size), last), batch),
          unbatch(b, f.factors, batch), unbatch(b, f.pivots, batch)};
}

// --- QR

std::pair<Value, Value> qr(Lowering& b, Value a, std::string mode) {
  TT_CHECK(mode == "reduced" || mode == "complete" || mode == "r", kInvalidArgument,
           "qr received unrecognized mode '", mode,
           "' but expected one of 'reduced' (default), 'r', or 'complete'");
  const Shape batch = batch_of(a);
  Value x = as_batch(b, a);
  const int64_t rows = x.dim(1);
  const int64_t k = std::min(rows, x.dim(2));
  const PackedQr f = qr_factor(b, x);
  Value r = f.packed;
  if (mode != "complete") r = b.slice_dim(r, 1, 0, k);
  r = unbatch(b, upper_triangle(b, r), batch);
  if (mode == "r") return {b.full({a.dtype(), b.out(0).shape}, 0), r};
  Value q = householder_product(b, f.packed, f.tau, mode == "complete" ? rows : k);
  return {unbatch(b, q, batch), r};
}

std::pair<Value, Value> geqrf(Lowering& b, Value a) {
  const PackedQr f = qr_factor(b, as_batch(b, a));
  return {unbatch(b, f.packed, batch_of(a)), unbatch(b, f.tau, batch_of(a))};
}

Value as_vectors(Lowering& b, Value tau, int64_t n) { return b.reshape(tau, {n, tau.dim(-1)}); }

Value linalg_householder_product(Lowering& b, Value a, Value tau) {
  TT_CHECK(a.dim(-2) >= a.dim(-1), kInvalidArgument,
           "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to "
           "input.shape[-1]");
  TT_CHECK(a.dim(-1) >= tau.dim(-1), kInvalidArgument,
           "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to "
           "tau.shape[-1]");
  Value x = as_batch(b, a);
  return unbatch(b, householder_product(b, x, as_vectors(b, tau, x.dim(0)), x.dim(2)), batch_of(a));
}

Value ormqr(Lowering& b, Value a, Value tau, Value other, bool left, bool transpose) {
  const Shape batch = batch_of(a);
  Value x = as_batch(b, a);
  Value q = householder_product(b, x, as_vectors(b, tau, x.dim(0)), x.dim(1));
  if (transpose) q = adjoint(b, q);
  Value y = as_batch(b, other);
  return unbatch(b, left ? multiply_matrices(b, q, y) : multiply_matrices(b, y, q), batch);
}

// --- spectral

std::pair<Value, Value> linalg_eigh(Lowering& b, Value a, std::string uplo, bool vectors) {
  check_square(b, a);
  const Shape batch = batch_of(a);
  const Eigh e = eigh(b, as_batch(b, a), uplo != "U" && uplo != "u");
  Value v = vectors ? unbatch(b, e.vectors, batch) : b.full({a.dtype(), b.out(1).shape}, 0);
  return {unbatch(b, e.values, batch), v};
}

std::tuple<Value, Value, Value> linalg_svd(Lowering& b, Value a, bool full, bool vectors) {
  const Shape batch = batch_of(a);
  const Svd f = svd(b, as_batch(b, a), full, vectors);
  Value s = unbatch(b, f.s, batch);
  if (!vectors)
    return {b.full({a.dtype(), b.out(0).shape}, 0), s, b.full({a.dtype(), b.out(2).shape}, 0)};
  return {unbatch(b, f.u, batch), s, unbatch(b, f.vh, batch)};
}

Value linalg_matrix_exp(Lowering& b, Value a) {
  check_square(b, a);
  return unbatch(b, matrix_exp(b, as_batch(b, a)), batch_of(a));
}

// --- products

Value cross(Lowering& b, Value x, Value y, int64_t dim) {
  b.broadcast_pair(x, y);
  dim = Lowering::wrap_dim(dim, x.rank());
  TT_CHECK(x.dim(dim) == 3, kInvalidArgument, "linalg.cross: inputs dimension ", dim,
           " must have length 3. Got ", x.dim(dim), " and ", y.dim(dim));
  auto rolled = [&](Value v, int64_t first) {
    const Value parts[] = {b.slice_dim(v, dim, first, 3), b.slice_dim(v, dim, 0, first)};
    return b.concatenate(parts, dim);
  };
  return b.subtract(b.multiply(rolled(x, 1), rolled(y, 2)), b.multiply(rolled(x, 2), rolled(y, 1)));
}

}  // namespace

void register_linalg(OperatorTable& table) {
  table.add("linalg_cholesky_ex", cholesky_ex);
  table.add("_cholesky_solve_helper", cholesky_solve);
  table.add("cholesky_solve", cholesky_solve);
  table.add("cholesky_inverse", cholesky_inverse);
  table.add("linalg_solve_triangular", solve_triangular);
  table.add("triangular_solve", triangular_solve);
  table.add("linalg_lu_factor_ex", lu_factor_ex);
  table.add("linalg_lu", lu);
  table.add("lu_unpack", lu_unpack);
  table.add("linalg_lu_solve", linalg_lu_solve);
  table.add("_linalg_solve_ex", solve_ex);
  table.add("linalg_inv_ex", inv_ex);
  table.add("_linalg_det", det);
  table.add("_linalg_slogdet", slogdet);
  table.add("linalg_qr", qr);
  table.add("geqrf", geqrf);
  table.add("linalg_householder_product", linalg_householder_product);
  table.add("ormqr", ormqr);
  table.add("_linalg_eigh", linalg_eigh);
  table.add("_linalg_svd", linalg_svd);
  table.add("linalg_lstsq", least_squares);
  table.add("linalg_matrix_exp", linalg_matrix_exp, {.opmath = true});
  table.add("linalg_cross", cross, {.promotion = Promotion::kResult});
}

}  // namespace torch_tpu::lowering
