#include "lowering/least_squares.h"

#include <algorithm>

#include "lowering/factorisation.h"

namespace torch_tpu::lowering {
namespace {

// By QR, for matrices of full rank: least squares, or the solution of least norm.
Value solve_full_rank(Lowering& b, Value a, Value rhs) {
  using stablehlo::Transpose;
  const int64_t rows = a.dim(1);
  const int64_t columns = a.dim(2);
  if (rows >= columns) {
    const PackedQr f = qr_factor(b, a);
    Value q = householder_product(b, f.packed, f.tau, columns);
    Value r = b.slice_dim(f.packed, 1, 0, columns);
    return b.triangular_solve(r, multiply_matrices(b, adjoint(b, q), rhs), true, false, false,
                              Transpose::kNone);
  }
  const PackedQr f = qr_factor(b, adjoint(b, a));
  Value q = householder_product(b, f.packed, f.tau, rows);
  Value r = b.slice_dim(f.packed, 1, 0, rows);
  return multiply_matrices(b, q,
                           b.triangular_solve(r, rhs, true, false, false, Transpose::kAdjoint));
}

struct RankedSolution {
  Value x, rank, singular_values;
};

// By singular values, of which those up to rcond times the largest count as zero.
RankedSolution solve_any_rank(Lowering& b, Value a, Value rhs, double rcond) {
  const Svd f = svd(b, a, false, true);
  const int64_t last[] = {1};
  Value limit = b.mul_scalar(b.reduce_max(f.s, last, true), rcond);
  Value counts = b.bcompare(f.s, limit, Compare::kGt);
  Value inverse =
      b.select(counts, b.divide(b.full_like(f.s, 1), b.select(counts, f.s, b.full_like(f.s, 1))),
               b.zeros_like(f.s));
  Value projected = multiply_matrices(b, adjoint(b, f.u), rhs);
  projected =
      b.bmul(projected, b.reshape(b.convert(inverse, a.dtype()), {f.s.dim(0), f.s.dim(1), 1}));
  return {multiply_matrices(b, adjoint(b, f.vh), projected),
          b.sum(b.convert(counts, DType::kS64), last), f.s};
}

}  // namespace

std::tuple<Value, Value, Value, Value> least_squares(Lowering& b, Value a, Value rhs,
                                                     std::optional<double> rcond,
                                                     std::optional<std::string> driver) {
  const std::string name = driver.value_or("gelsy");
  const bool spectral = name == "gelsd" || name == "gelss";
  TT_CHECK(name == "gels" || name == "gelsy" || spectral, kInvalidArgument,
           "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  TT_CHECK(a.rank() >= 2, kInvalidArgument,
           "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TT_CHECK(rhs.rank() >= 1, kInvalidArgument,
           "torch.linalg.lstsq: other must have at least 1 dimension.");
  const Shape vectors{a.shape().begin(), a.shape().end() - 1};
  const bool vector = rhs.rank() == 1 || (rhs.rank() + 1 == a.rank() && rhs.shape() == vectors);
  if (vector) rhs = b.unsqueeze(rhs, -1);
  TT_CHECK(rhs.rank() >= 2 && rhs.dim(-2) == a.dim(-2), kInvalidArgument,
           "torch.linalg.lstsq: input.size(-2) should match other.size(-2)");
  TT_CHECK(rhs.dtype() == a.dtype(), kInvalidArgument,
           "torch.linalg.lstsq: Expected input and other to have the same dtype");
  const Shape batch = Lowering::broadcast_shapes({a.shape().begin(), a.shape().end() - 2},
                                                 {rhs.shape().begin(), rhs.shape().end() - 2});
  auto whole = [&](Value x) {
    Shape shape = batch;
    shape.insert(shape.end(), {x.dim(-2), x.dim(-1)});
    return as_batch(b, b.broadcast(x, shape));
  };
  auto shaped = [&](Value x) {
    Shape shape = batch;
    shape.insert(shape.end(), x.shape().begin() + 1, x.shape().end());
    return b.reshape(x, shape);
  };
  Value m = whole(a);
  Value y = whole(rhs);
  const int64_t rows = m.dim(1);
  const int64_t columns = m.dim(2);
  const DType real = real_of(a.dtype());
  Value nothing = b.full({real, {0}}, 0);
  Value residuals = nothing;
  Value singular_values = nothing;
  Value rank = b.constant_int(DType::kS64, 0, {0});
  Value x;
  if (m.numel() == 0 || y.numel() == 0) {
    x = b.full({a.dtype(), {m.dim(0), columns, y.dim(2)}}, 0);
    if (spectral) singular_values = shaped(b.full({real, {m.dim(0), std::min(rows, columns)}}, 0));
    if (name != "gels") rank = b.constant_int(DType::kS64, 0, batch);
  } else if (name == "gels") {
    x = solve_full_rank(b, m, y);
  } else {
    const double epsilon = real == DType::kF64 ? 0x1p-52 : 0x1p-23;
    const RankedSolution s = solve_any_rank(
        b, m, y, rcond.value_or(epsilon * static_cast<double>(std::max(rows, columns))));
    x = s.x;
    rank = shaped(s.rank);
    if (spectral) singular_values = shaped(s.singular_values);
  }
  if (rows > columns && name != "gelsy" && m.numel() != 0 && y.numel() != 0) {
    Value size = b.abs(b.subtract(y, multiply_matrices(b, m, x)));
    const int64_t along[] = {1};
    residuals = shaped(b.sum(b.multiply(size, size), along));
  }
  Value solution = shaped(x);
  return {vector ? b.squeeze_dim(solution, -1) : solution, residuals, rank, singular_values};
}

}  // namespace torch_tpu::lowering
