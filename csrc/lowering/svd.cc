#include <algorithm>
#include <cmath>

#include "lowering/factorisation.h"
#include "lowering/loops.h"

namespace torch_tpu::lowering {
namespace {

constexpr int64_t kMaxSweeps = 40;

Value conjugate(Lowering& b, Value x) {
  return is_complex(x.dtype()) ? b.complex(b.real(x), b.negate(b.imag(x))) : x;
}

// [n, rows, 1] sums over the first `width` columns of conj(x) * y.
Value inner(Lowering& b, Value x, Value y, int64_t width) {
  x = b.slice_dim(x, 2, 0, width);
  y = b.slice_dim(y, 2, 0, width);
  const int64_t last[] = {2};
  return b.sum(b.multiply(conjugate(b, x), y), last, true);
}

// x / |x|; 1 where x is 0.
Value phase(Lowering& b, Value x) {
  if (!is_complex(x.dtype())) {
    return b.select(b.compare(x, b.zeros_like(x), Compare::kLt), b.full_like(x, -1),
                    b.full_like(x, 1));
  }
  Value size = b.abs(x);
  Value zero = b.compare(size, b.zeros_like(size), Compare::kEq);
  Value divisor = b.convert(b.select(zero, b.full_like(size, 1), size), x.dtype());
  return b.select(zero, b.full_like(x, 1), b.divide(x, divisor));
}

struct Pair {
  Value x, y, off;  // off: [n], largest cosine met between two columns
};

// Makes row i of x and row i of y orthogonal (in their first `width` entries) by a plane rotation,
// for all i at once (Golub & Van Loan, section 8.6.3).
Pair rotate(Lowering& b, Value x, Value y, int64_t width, double tolerance) {
  const DType real = real_of(x.dtype());
  Value alpha = b.convert(inner(b, x, x, width), real);
  Value beta = b.convert(inner(b, y, y, width), real);
  Value gamma = inner(b, x, y, width);
  Value size = b.abs(gamma);
  Value norms = b.multiply(b.sqrt(alpha), b.sqrt(beta));
  Value relevant = b.compare(size, b.mul_scalar(norms, tolerance), Compare::kGt);
  Value one = b.full_like(size, 1);
  Value safe = b.select(relevant, size, one);
  Value zeta = b.divide(b.subtract(beta, alpha), b.mul_scalar(safe, 2));
  Value sign =
      b.select(b.compare(zeta, b.zeros_like(zeta), Compare::kLt), b.full_like(zeta, -1), one);
  // sqrt(1 + zeta^2) without overflow.
  Value big = b.compare(b.abs(zeta), b.full_like(zeta, 1e6), Compare::kGt);
  Value bounded = b.select(big, one, zeta);
  Value root = b.select(big, b.abs(zeta), b.sqrt(b.add(one, b.multiply(bounded, bounded))));
  Value tangent = b.divide(sign, b.add(b.abs(zeta), root));
  tangent = b.select(relevant, tangent, b.zeros_like(tangent));
  Value cosine = b.divide(one, b.sqrt(b.add(one, b.multiply(tangent, tangent))));
  Value sine = b.multiply(cosine, tangent);
  Value turned = y;
  if (is_complex(x.dtype())) {
    Value back = b.select(relevant, conjugate(b, phase(b, gamma)), b.full_like(gamma, 1));
    turned = b.bmul(y, back);
  } else {
    turned = b.bmul(y, b.select(relevant, phase(b, gamma), one));
  }
  Value c = b.convert(cosine, x.dtype());
  Value s = b.convert(sine, x.dtype());
  const int64_t dims[] = {1, 2};
  Value off =
      b.select(relevant, b.divide(size, b.select(relevant, norms, one)), b.zeros_like(size));
  return {b.bsub(b.bmul(x, c), b.bmul(turned, s)), b.badd(b.bmul(x, s), b.bmul(turned, c)),
          b.reduce_max(off, dims)};
}

struct Columns {
  Value w, v;  // [n, size, size]: row i is column i of W = A V, and of V
};

// One-sided Jacobi iteration on a square matrix: rotates columns until all are orthogonal. Pairs
// meet as in a round-robin tournament, half of the columns against the other half at a time.
Columns orthogonalise(Lowering& b, Value a) {
  const int64_t n = a.dim(0);
  const int64_t size = a.dim(1);
  Value v = identity(b, a.dtype(), a.shape());
  if (size < 2) return {b.transpose_last_two(a), v};
  const int64_t half = (size + 1) / 2;
  const Value joined[] = {b.transpose_last_two(a), v};
  Value rows = b.concatenate(joined, 2);
  if (size % 2 != 0) {
    const int64_t low[] = {0, 0, 0};
    const int64_t high[] = {0, 1, 0};
    rows = b.pad(rows, b.constant(a.dtype(), 0), low, high);
  }
  const DType real = real_of(a.dtype());
  const double epsilon = real == DType::kF64 ? 0x1p-53 : 0x1p-24;
  const double tolerance = epsilon * std::sqrt(static_cast<double>(size));
  const IntList all{0};
  const Values end = b.while_loop(
      Values{b.constant_int(DType::kS32, 0), b.constant_int(DType::kPred, 1),
             b.slice_dim(rows, 1, 0, half), b.slice_dim(rows, 1, half, 2 * half)},
      [&](std::span<const Value> s) {
        return Values{
            b.and_(s[1], b.compare(s[0], b.constant_int(DType::kS32, kMaxSweeps), Compare::kLt))};
      },
      [&](std::span<const Value> s) {
        const Values swept =
            for_loop(b, 2 * half - 1, {s[2], s[3], b.full({real, {n}}, 0)},
                     [&](Value, std::span<const Value> r) {
                       const Pair p = rotate(b, r[0], r[1], size, tolerance);
                       Value x = p.x;
                       Value y = p.y;
                       if (half > 1) {
                         // The first stays, the others move round.
                         const Value next_x[] = {b.slice_dim(x, 1, 0, 1), b.slice_dim(y, 1, 0, 1),
                                                 b.slice_dim(x, 1, 1, half - 1)};
                         const Value next_y[] = {b.slice_dim(y, 1, 1, half),
                                                 b.slice_dim(x, 1, half - 1, half)};
                         x = b.concatenate(next_x, 1);
                         y = b.concatenate(next_y, 1);
                       }
                       return Values{x, y, b.maximum(r[2], p.off)};
                     });
        Value more = b.any(b.compare(swept[2], b.full({real, {n}}, tolerance), Compare::kGt), all);
        return Values{b.add(s[0], b.constant_int(DType::kS32, 1)), more, swept[0], swept[1]};
      });
  const Value halves[] = {end[2], end[3]};
  rows = b.slice_dim(b.concatenate(halves, 1), 1, 0, size);
  return {b.slice_dim(rows, 2, 0, size), b.slice_dim(rows, 2, size, 2 * size)};
}

}  // namespace

// QR to a square matrix, then one-sided Jacobi; singular values are accurate relative to the
// largest of their column. A second QR of the sorted columns completes the left vectors of a zero
// value.
Svd svd(Lowering& b, Value a, bool full, bool vectors) {
  const int64_t n = a.dim(0);
  const int64_t rows = a.dim(1);
  const int64_t columns = a.dim(2);
  const DType dtype = a.dtype();
  const DType real = real_of(dtype);
  const int64_t k = std::min(rows, columns);
  if (a.numel() == 0) {
    return {identity(b, dtype, {n, rows, full ? rows : k}), b.full({real, {n, k}}, 0),
            identity(b, dtype, {n, full ? columns : k, columns})};
  }
  if (rows < columns) {
    const Svd t = svd(b, adjoint(b, a), full, vectors);
    if (!vectors) return t;
    return {adjoint(b, t.vh), t.s, adjoint(b, t.u)};
  }
  const int64_t dims[] = {1, 2};
  Value scale = b.reduce_max(b.abs(a), dims, true);
  scale =
      b.select(b.compare(scale, b.zeros_like(scale), Compare::kEq), b.full_like(scale, 1), scale);
  Value square = b.divide(a, b.broadcast(b.convert(scale, dtype), a.shape()));
  PackedQr outer;
  if (rows > columns) {
    outer = qr_factor(b, square);
    square = upper_triangle(b, b.slice_dim(outer.packed, 1, 0, columns));
  }
  const Columns c = orthogonalise(b, square);
  Value squares = b.convert(inner(b, c.w, c.w, columns), real);
  Value s = b.sqrt(b.squeeze_dim(squares, 2));
  const Value keys[] = {b.negate(s), b.iota({DType::kS32, s.shape()}, 1)};
  const Values sorted = b.sort(keys, 1, true, [&](std::span<const Value> x) {
    return Values{b.compare(x[0], x[1], Compare::kLt)};
  });
  s = b.bmul(b.negate(sorted[0]), b.reshape(scale, {n, 1}));
  if (!vectors) return {Value(), s, Value()};

  Value w = b.transpose_last_two(take(b, c.w, sorted[1], 1));
  Value vh = conjugate(b, take(b, c.v, sorted[1], 1));
  const PackedQr directions = qr_factor(b, w);
  Value u = householder_product(b, directions.packed, directions.tau, columns);
  u = b.bmul(u, b.reshape(phase(b, diagonal(b, directions.packed)), {n, 1, columns}));
  if (rows > columns) {
    Value q = householder_product(b, outer.packed, outer.tau, full ? rows : columns);
    Value turned = multiply_matrices(b, b.slice_dim(q, 2, 0, columns), u);
    const Value parts[] = {turned, b.slice_dim(q, 2, columns, q.dim(2))};
    u = full ? b.concatenate(parts, 2) : turned;
  }
  return {u, s, vh};
}

}  // namespace torch_tpu::lowering
