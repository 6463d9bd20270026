#pragma once

#include "lowering/lowering.h"

// Matrix factorisations and solves on batches [n, rows, columns]; in full precision, whatever the
// precision of matrix products is set to.
namespace torch_tpu::lowering {

// [..., rows, columns] -> [n, rows, columns]
Value as_batch(Lowering& b, Value x);
Value identity(Lowering& b, DType dtype, const Shape& shape);
Value adjoint(Lowering& b, Value x);
// Keeps what is on and below (above) diagonal `k`.
Value lower_triangle(Lowering& b, Value x, int64_t k = 0);
Value upper_triangle(Lowering& b, Value x, int64_t k = 0);
Value diagonal(Lowering& b, Value x);  // [n, min(rows, columns)]
Value multiply_matrices(Lowering& b, Value x, Value y);

// P A = L U with unit lower triangular L. `pivots` are LAPACK's (int32 [n, k], counted from 1),
// `info` (int32 [n]) the position of the first zero on U's diagonal, counted from 1, or 0.
struct Lu {
  Value factors, pivots, info;
};
Lu lu_factor(Lowering& b, Value a, bool pivot);
// Row i of the permuted matrix is row `result[i]` (int32 [n, rows]) of the given one; or the
// inverse.
Value permutation_of(Lowering& b, Value pivots, int64_t rows, bool inverse);
// Rows (dim 1) or columns (dim 2) of x [n, ., .] in the order of `index` (int32 [n, .]).
Value take(Lowering& b, Value x, Value index, int64_t dim);
// Solves A X = B, X A = B, or the same with the adjoint of A.
Value lu_solve(Lowering& b, Value factors, Value pivots, Value rhs, bool left, bool adjoint);

// LAPACK's packed form: R on and above the diagonal, the Householder vectors below it.
struct PackedQr {
  Value packed, tau;
};
PackedQr qr_factor(Lowering& b, Value a);
// The first `columns` (>= packed columns) columns of the product of the reflectors.
Value householder_product(Lowering& b, Value packed, Value tau, int64_t columns);

// Lower Cholesky factor from the lower triangle; info (int32 [n]) as LAPACK's potrf.
struct Cholesky {
  Value factor, info;
};
Cholesky cholesky_factor(Lowering& b, Value a);

// Ascending eigenvalues [n, k] and eigenvectors in columns of a Hermitian matrix, of which only the
// given triangle is read.
struct Eigh {
  Value values, vectors;
};
Eigh eigh(Lowering& b, Value a, bool lower);

// a = u diag(s) vh, s descending; u and vh square when `full`, undefined without `vectors`.
struct Svd {
  Value u, s, vh;
};
Svd svd(Lowering& b, Value a, bool full, bool vectors);

Value matrix_exp(Lowering& b, Value a);

}  // namespace torch_tpu::lowering
