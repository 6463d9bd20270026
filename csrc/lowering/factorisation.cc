#include "lowering/factorisation.h"

#include <algorithm>

#include "lowering/loops.h"

namespace torch_tpu::lowering {
namespace {

Value index_vector(Lowering& b, const Shape& shape, int64_t dim) {
  return b.iota({DType::kS32, shape}, dim);
}

// x [n, ...] with the slice at `index` of dimension `dim`, which is dropped.
Value at(Lowering& b, Value x, Value index, int64_t dim) {
  Values start(static_cast<size_t>(x.rank()), b.constant_int(DType::kS32, 0));
  start[static_cast<size_t>(dim)] = index;
  Shape sizes = x.shape();
  sizes[static_cast<size_t>(dim)] = 1;
  return b.squeeze_dim(b.dynamic_slice(x, start, sizes), dim);
}

// Sum over dim 1 of the elements of x [n, rows, ...] where `chosen` [n, rows] holds: one of them.
Value pick(Lowering& b, Value x, Value chosen) {
  const IntList rows{0, 1};
  Value mask = b.broadcast_in_dim(chosen, x.shape(), rows);
  const int64_t dim[] = {1};
  return b.sum(b.select(mask, x, b.zeros_like(x)), dim);
}

// x [n, rows, ...] with the rows `first` and `second` (masks [n, rows]) exchanged.
Value exchange(Lowering& b, Value x, Value first, Value second) {
  IntList kept{0};
  for (int64_t d = 2; d < x.rank(); ++d) kept.push_back(d);
  const IntList rows{0, 1};
  Value first_row = b.broadcast_in_dim(pick(b, x, first), x.shape(), kept);
  Value second_row = b.broadcast_in_dim(pick(b, x, second), x.shape(), kept);
  Value is_first = b.broadcast_in_dim(first, x.shape(), rows);
  Value is_second = b.broadcast_in_dim(second, x.shape(), rows);
  return b.select(is_first, second_row, b.select(is_second, first_row, x));
}

}  // namespace

Value as_batch(Lowering& b, Value x) {
  int64_t n = 1;
  for (int64_t d = 0; d + 2 < x.rank(); ++d) n *= x.dim(d);
  return b.reshape(x, {n, x.dim(-2), x.dim(-1)});
}

Value identity(Lowering& b, DType dtype, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  Value equal =
      b.compare(index_vector(b, shape, rank - 2), index_vector(b, shape, rank - 1), Compare::kEq);
  return b.convert(equal, dtype);
}

Value adjoint(Lowering& b, Value x) {
  Value t = b.transpose_last_two(x);
  return is_complex(x.dtype()) ? b.complex(b.real(t), b.negate(b.imag(t))) : t;
}

Value lower_triangle(Lowering& b, Value x, int64_t k) {
  Value row = index_vector(b, x.shape(), x.rank() - 2);
  Value column = index_vector(b, x.shape(), x.rank() - 1);
  Value end = b.add(row, b.constant_int(DType::kS32, k, x.shape()));
  return b.select(b.compare(column, end, Compare::kLe), x, b.zeros_like(x));
}

Value upper_triangle(Lowering& b, Value x, int64_t k) {
  Value row = index_vector(b, x.shape(), x.rank() - 2);
  Value column = index_vector(b, x.shape(), x.rank() - 1);
  Value end = b.add(row, b.constant_int(DType::kS32, k, x.shape()));
  return b.select(b.compare(column, end, Compare::kGe), x, b.zeros_like(x));
}

Value diagonal(Lowering& b, Value x) {
  const int64_t k = std::min(x.dim(1), x.dim(2));
  x = b.slice_dim(b.slice_dim(x, 1, 0, k), 2, 0, k);
  Value on = b.compare(index_vector(b, x.shape(), 1), index_vector(b, x.shape(), 2), Compare::kEq);
  const int64_t columns[] = {2};
  return b.sum(b.select(on, x, b.zeros_like(x)), columns);
}

Value multiply_matrices(Lowering& b, Value x, Value y) {
  stablehlo::DotDims dims;
  dims.lhs_batch = dims.rhs_batch = {0};
  dims.lhs_contract = {2};
  dims.rhs_contract = {1};
  return b.dot_general(x, y, dims, x.dtype(), Precision::kHighest);
}

// Gaussian elimination by columns, the largest element of each as pivot.
Lu lu_factor(Lowering& b, Value a, bool pivot) {
  const int64_t n = a.dim(0);
  const int64_t rows = a.dim(1);
  const int64_t columns = a.dim(2);
  const int64_t steps = std::min(rows, columns);
  if (a.numel() == 0) {
    return {a, b.constant_int(DType::kS32, 0, {n, steps}), b.constant_int(DType::kS32, 0, {n})};
  }
  const Shape column_shape{n, rows};
  const IntList by_row{0, 1}, by_column{0, 2}, by_batch{0};
  const int64_t last[] = {1};
  const DType real = real_of(a.dtype());
  const Values result = for_loop(
      b, steps, {a, b.constant_int(DType::kS32, 0, {n, steps})},
      [&](Value k, std::span<const Value> state) {
        Value x = state[0];
        Value row = index_vector(b, column_shape, 1);
        Value step = b.broadcast(k, column_shape);
        Value is_k = b.compare(row, step, Compare::kEq);
        Value p = b.broadcast(k, {n});
        if (pivot) {
          Value column = at(b, x, k, 2);
          // LAPACK compares complex numbers by |re| + |im|.
          Value size = is_complex(x.dtype()) ? b.add(b.abs(b.real(column)), b.abs(b.imag(column)))
                                             : b.abs(column);
          size =
              b.select(b.compare(row, step, Compare::kGe), size, b.full({real, column_shape}, -1));
          Value largest = b.broadcast_in_dim(b.reduce_max(size, last), column_shape, by_batch);
          Value candidates = b.select(b.compare(size, largest, Compare::kEq), row,
                                      b.constant_int(DType::kS32, rows, column_shape));
          Value first = b.reduce_min(candidates, last);
          // Nothing equals a NaN.
          p = b.select(b.compare(first, b.constant_int(DType::kS32, rows, {n}), Compare::kLt),
                       first, p);
          x = exchange(b, x, is_k,
                       b.compare(row, b.broadcast_in_dim(p, column_shape, by_batch), Compare::kEq));
        }
        Value pivot_row = at(b, x, k, 1);  // [n, columns]
        Value column = at(b, x, k, 2);     // [n, rows]
        Value head = b.broadcast_in_dim(at(b, pivot_row, k, 1), column_shape, by_batch);
        Value zero = b.compare(head, b.zeros_like(head), Compare::kEq);
        Value factor = b.divide(column, b.select(zero, b.full_like(head, 1), head));
        Value product = b.multiply(b.broadcast_in_dim(factor, x.shape(), by_row),
                                   b.broadcast_in_dim(pivot_row, x.shape(), by_column));
        Value all_k = b.broadcast(k, x.shape());
        Value below = b.compare(index_vector(b, x.shape(), 1), all_k, Compare::kGt);
        Value j = index_vector(b, x.shape(), 2);
        Value right = b.compare(j, all_k, Compare::kGt);
        Value on = b.compare(j, all_k, Compare::kEq);
        Value next = b.select(b.and_(below, right), b.subtract(x, product), x);
        next = b.select(b.and_(below, on), b.broadcast_in_dim(factor, x.shape(), by_row), next);
        const Value start[] = {b.constant_int(DType::kS32, 0), k};
        Value counted = b.add(b.reshape(p, {n, 1}), b.constant_int(DType::kS32, 1, {n, 1}));
        return Values{next, b.dynamic_update_slice(state[1], counted, start)};
      });
  Value d = diagonal(b, result[0]);
  Value singular = b.compare(d, b.zeros_like(d), Compare::kEq);
  Value position = b.add(index_vector(b, d.shape(), 1), b.constant_int(DType::kS32, 1, d.shape()));
  const int64_t none = steps + 1;
  Value first = b.reduce_min(
      b.select(singular, position, b.constant_int(DType::kS32, none, d.shape())), last);
  Value regular = b.compare(first, b.constant_int(DType::kS32, none, {n}), Compare::kEq);
  return {result[0], result[1], b.select(regular, b.zeros_like(first), first)};
}

Value permutation_of(Lowering& b, Value pivots, int64_t rows, bool inverse) {
  const int64_t n = pivots.dim(0);
  const int64_t steps = pivots.dim(1);
  const Shape shape{n, rows};
  const IntList by_batch{0};
  Value order = index_vector(b, shape, 1);
  if (order.numel() == 0 || steps == 0) return order;
  return for_loop(b, steps, {order}, [&](Value i, std::span<const Value> state) {
    Value k = inverse ? b.subtract(b.constant_int(DType::kS32, steps - 1), i) : i;
    Value row = index_vector(b, shape, 1);
    Value p = b.subtract(at(b, pivots, k, 1), b.constant_int(DType::kS32, 1, {n}));
    Value is_k = b.compare(row, b.broadcast(k, shape), Compare::kEq);
    Value is_p = b.compare(row, b.broadcast_in_dim(p, shape, by_batch), Compare::kEq);
    return Values{exchange(b, state[0], is_k, is_p)};
  })[0];
}

Value take(Lowering& b, Value x, Value index, int64_t dim) {
  if (x.numel() == 0) return x;
  stablehlo::GatherDims dims;
  dims.offset_dims = {dim == 1 ? 2 : 1};
  dims.collapsed_slice_dims = {dim};
  dims.start_index_map = {dim};
  dims.operand_batching_dims = {0};
  dims.start_indices_batching_dims = {0};
  dims.index_vector_dim = 2;
  dims.slice_sizes = {1, dim == 1 ? 1 : x.dim(1), dim == 1 ? x.dim(2) : 1};
  return b.gather(x, b.reshape(index, {index.dim(0), index.dim(1), 1}), dims);
}

Value lu_solve(Lowering& b, Value factors, Value pivots, Value rhs, bool left, bool adjoint) {
  using stablehlo::Transpose;
  if (rhs.numel() == 0) return rhs;
  const Transpose form = adjoint ? Transpose::kAdjoint : Transpose::kNone;
  auto with_l = [&](Value x) { return b.triangular_solve(factors, x, left, true, true, form); };
  auto with_u = [&](Value x) { return b.triangular_solve(factors, x, left, false, false, form); };
  const int64_t size = factors.dim(1);
  const int64_t dim = left ? 1 : 2;
  // A = P L U. The permutation comes first where A's inverse ends with P^T: A X = B and X A^H = B.
  const bool first = left != adjoint;
  Value order = permutation_of(b, pivots, size, !first);
  if (first) return with_u(with_l(take(b, rhs, order, dim)));
  return take(b, with_l(with_u(rhs)), order, dim);
}

PackedQr qr_factor(Lowering& b, Value a) {
  const Shape tau{a.dim(0), std::min(a.dim(1), a.dim(2))};
  if (a.numel() == 0) return {a, b.full({a.dtype(), tau}, 0)};
  const TensorType types[] = {a.type(), {a.dtype(), tau}};
  const Values r = b.custom_call("Qr", std::span(&a, 1), types);
  return {r[0], r[1]};
}

Value householder_product(Lowering& b, Value packed, Value tau, int64_t columns) {
  const int64_t rows = packed.dim(1);
  if (packed.numel() == 0 || tau.numel() == 0)
    return identity(b, packed.dtype(), {packed.dim(0), rows, columns});
  if (columns < packed.dim(2)) packed = b.slice_dim(packed, 2, 0, columns);
  if (columns > packed.dim(2)) {
    const int64_t low[] = {0, 0, 0};
    const int64_t high[] = {0, 0, columns - packed.dim(2)};
    packed = b.pad(packed, b.constant(packed.dtype(), 0), low, high);
  }
  const Value operands[] = {packed, tau};
  const TensorType types[] = {packed.type()};
  return b.custom_call("ProductOfElementaryHouseholderReflectors", operands, types)[0];
}

namespace {

// Column by column, stopping where a pivot isn't positive: the outcome of LAPACK's potrf.
Cholesky cholesky_by_columns(Lowering& b, Value a) {
  const int64_t n = a.dim(0);
  const int64_t size = a.dim(1);
  const IntList by_row{0, 1}, by_column{0, 2}, by_batch{0};
  const Shape column_shape{n, size};
  const DType real = real_of(a.dtype());
  const Values result = for_loop(
      b, size, {a, b.constant_int(DType::kS32, 0, {n})},
      [&](Value k, std::span<const Value> state) {
        Value x = state[0];
        Value column = at(b, x, k, 2);
        Value pivot = b.convert(at(b, column, k, 1), real);
        Value zero = b.constant_int(DType::kS32, 0, {n});
        Value good = b.compare(pivot, b.zeros_like(pivot), Compare::kGt);
        Value going = b.and_(b.compare(state[1], zero, Compare::kEq), good);
        Value position = b.broadcast(b.add(k, b.constant_int(DType::kS32, 1)), {n});
        Value fails = b.and_(b.compare(state[1], zero, Compare::kEq), b.not_(good));
        Value info = b.select(fails, position, state[1]);
        Value root = b.broadcast_in_dim(b.sqrt(pivot), column_shape, by_batch);
        Value factor = b.divide(column, b.convert(root, a.dtype()));
        Value other = factor;
        if (is_complex(a.dtype())) other = b.complex(b.real(factor), b.negate(b.imag(factor)));
        Value product = b.multiply(b.broadcast_in_dim(factor, x.shape(), by_row),
                                   b.broadcast_in_dim(other, x.shape(), by_column));
        Value all_k = b.broadcast(k, x.shape());
        Value i = index_vector(b, x.shape(), 1);
        Value j = index_vector(b, x.shape(), 2);
        Value inner = b.and_(b.compare(j, all_k, Compare::kGt), b.compare(i, j, Compare::kGe));
        Value on = b.and_(b.compare(j, all_k, Compare::kEq), b.compare(i, all_k, Compare::kGe));
        Value next = b.select(inner, b.subtract(x, product), x);
        next = b.select(on, b.broadcast_in_dim(factor, x.shape(), by_row), next);
        return Values{b.select(b.broadcast_in_dim(going, x.shape(), by_batch), next, x), info};
      });
  return {result[0], result[1]};
}

}  // namespace

Cholesky cholesky_factor(Lowering& b, Value a) {
  const int64_t n = a.dim(0);
  if (a.numel() == 0) return {a, b.constant_int(DType::kS32, 0, {n})};
  Value factor = b.cholesky(a, true);
  Value d = diagonal(b, factor);
  Value positive = b.compare(b.convert(d, real_of(d.dtype())),
                             b.full({real_of(d.dtype()), d.shape()}, 0), Compare::kGt);
  const int64_t both[] = {0, 1};
  // The native operation tells only that it failed.
  const Values result = b.if_else(
      b.all(positive, both), [&] { return Values{factor, b.constant_int(DType::kS32, 0, {n})}; },
      [&] {
        const Cholesky c = cholesky_by_columns(b, a);
        return Values{c.factor, c.info};
      });
  return {lower_triangle(b, result[0]), result[1]};
}

Eigh eigh(Lowering& b, Value a, bool lower) {
  const Shape values{a.dim(0), a.dim(1)};
  const DType real = real_of(a.dtype());
  if (a.numel() == 0) return {b.full({real, values}, 0), a};
  Value half = lower ? lower_triangle(b, a, -1) : upper_triangle(b, a, 1);
  Value on = b.compare(index_vector(b, a.shape(), 1), index_vector(b, a.shape(), 2), Compare::kEq);
  Value d = b.select(on, a, b.zeros_like(a));
  if (is_complex(a.dtype())) d = b.convert(b.real(d), a.dtype());
  Value whole = b.add(b.add(half, adjoint(b, half)), d);
  const TensorType types[] = {a.type(), {real, values}};
  // Lower triangle, sorted, at most 100 sweeps of Jacobi rotations, tolerance.
  const std::string config = real == DType::kF64 ? "1,1,100,1e-14" : "1,1,100,1e-6";
  const Values r =
      b.custom_call("Eigh", std::span(&whole, 1), types, "backend_config = \"" + config + "\"");
  return {r[1], r[0]};
}

}  // namespace torch_tpu::lowering
