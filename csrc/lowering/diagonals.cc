#include "lowering/diagonals.h"

#include <algorithm>

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

// Dimensions in the order (others..., dim1, dim2).
IntList diagonal_last(int64_t rank, int64_t dim1, int64_t dim2) {
  TT_CHECK(dim1 != dim2, kInvalidArgument, "diagonal dimensions cannot be identical ", dim1, ", ",
           dim2);
  IntList order;
  for (int64_t d = 0; d < rank; ++d) {
    if (d != dim1 && d != dim2) order.push_back(d);
  }
  order.push_back(dim1);
  order.push_back(dim2);
  return order;
}

int64_t diagonal_length(int64_t rows, int64_t cols, int64_t offset) {
  return std::max<int64_t>(
      0, offset >= 0 ? std::min(rows, cols - offset) : std::min(rows + offset, cols));
}

}  // namespace

Value diagonal(Lowering& b, Value x, int64_t offset, int64_t dim1, int64_t dim2) {
  const int64_t rank = x.rank();
  x = b.transpose(
      x, diagonal_last(rank, Lowering::wrap_dim(dim1, rank), Lowering::wrap_dim(dim2, rank)));
  const int64_t n = diagonal_length(x.dim(-2), x.dim(-1), offset);
  Shape batch(x.shape().begin(), x.shape().end() - 2);
  Shape result = batch;
  result.push_back(n);
  if (numel(result) == 0) return b.constant(x.dtype(), 0, result);
  const int64_t row = std::max<int64_t>(-offset, 0);
  const int64_t col = std::max<int64_t>(offset, 0);
  x = b.slice_dim(b.slice_dim(x, -2, row, row + n), -1, col, col + n);
  // In rows of n + 1 the diagonal of an n x n square is the first column.
  Shape flat = batch;
  flat.push_back(n * n);
  Shape low(flat.size(), 0);
  Shape high(flat.size(), 0);
  high.back() = n;
  Value padded = b.pad(b.reshape(x, flat), b.constant(x.dtype(), 0), low, high);
  Shape skewed = batch;
  skewed.push_back(n);
  skewed.push_back(n + 1);
  return b.reshape(b.slice_dim(b.reshape(padded, skewed), -1, 0, 1), result);
}

Value on_diagonal(Lowering& b, Value source, const Shape& shape, int64_t offset, int64_t dim1,
                  int64_t dim2) {
  const auto rank = static_cast<int64_t>(shape.size());
  const IntList order =
      diagonal_last(rank, Lowering::wrap_dim(dim1, rank), Lowering::wrap_dim(dim2, rank));
  const int64_t rows = shape[static_cast<size_t>(order[order.size() - 2])];
  const int64_t cols = shape[static_cast<size_t>(order.back())];
  const int64_t n = diagonal_length(rows, cols, offset);
  if (n == 0 || numel(shape) == 0) return b.constant(source.dtype(), 0, shape);
  Value zero = b.constant(source.dtype(), 0);
  Value column = b.unsqueeze(source, source.rank());
  Shape low(static_cast<size_t>(rank), 0);
  Shape high(static_cast<size_t>(rank), 0);
  high.back() = n;
  Value skewed = b.pad(column, zero, low, high);
  Shape batch(source.shape().begin(), source.shape().end() - 1);
  Shape flat = batch;
  flat.push_back(n * (n + 1));
  Value x = b.slice_dim(b.reshape(skewed, flat), -1, 0, n * n);
  Shape square = batch;
  square.push_back(n);
  square.push_back(n);
  x = b.reshape(x, square);
  const auto r = static_cast<size_t>(rank - 2);
  low[r] = std::max<int64_t>(-offset, 0);
  low[r + 1] = std::max<int64_t>(offset, 0);
  high[r] = rows - n - low[r];
  high[r + 1] = cols - n - low[r + 1];
  x = b.pad(x, zero, low, high);
  IntList back(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return b.transpose(x, back);
}

Value diagonal_mask(Lowering& b, const Shape& shape, int64_t offset, int64_t row_dim,
                    int64_t col_dim, Compare which) {
  const DType type = index_type(
      std::max(shape[static_cast<size_t>(row_dim)], shape[static_cast<size_t>(col_dim)]));
  // An offset beyond the matrix selects as much as one just beyond it.
  offset = std::clamp(offset, -shape[static_cast<size_t>(row_dim)] - 1,
                      shape[static_cast<size_t>(col_dim)] + 1);
  Value row = b.iota({type, shape}, row_dim);
  Value col = b.iota({type, shape}, col_dim);
  return b.compare(b.subtract(col, row), b.constant_int(type, offset, shape), which);
}

namespace {

Value keep_where(Lowering& b, Value x, int64_t offset, Compare which) {
  return b.select(diagonal_mask(b, x.shape(), offset, x.rank() - 2, x.rank() - 1, which), x,
                  b.zeros_like(x));
}

Value tril(Lowering& b, Value x, int64_t offset) { return keep_where(b, x, offset, Compare::kLe); }
Value triu(Lowering& b, Value x, int64_t offset) { return keep_where(b, x, offset, Compare::kGe); }

Value trace(Lowering& b, Value x) {
  TT_CHECK(x.rank() == 2, kInvalidArgument, "trace: expected a matrix, but got tensor with dim ",
           x.rank());
  const DType type = b.out().dtype;
  const int64_t dims[] = {0};
  return b.sum(b.convert(diagonal(b, x, 0, 0, 1), opmath(type)), dims);
}

Value diag_embed(Lowering& b, Value x, int64_t offset, int64_t dim1, int64_t dim2) {
  return on_diagonal(b, x, b.out().shape, offset, dim1, dim2);
}

Value diagonal_copy(Lowering& b, Value x, int64_t offset, int64_t dim1, int64_t dim2) {
  return diagonal(b, x, offset, dim1, dim2);
}

Value diagonal_backward(Lowering& b, Value grad, IntList sizes, int64_t offset, int64_t dim1,
                        int64_t dim2) {
  return on_diagonal(b, grad, sizes, offset, dim1, dim2);
}

Value diagonal_scatter(Lowering& b, Value x, Value source, int64_t offset, int64_t dim1,
                       int64_t dim2) {
  const int64_t row = Lowering::wrap_dim(dim1, x.rank());
  const int64_t col = Lowering::wrap_dim(dim2, x.rank());
  Value mask = diagonal_mask(b, x.shape(), offset, row, col, Compare::kEq);
  return b.select(mask, on_diagonal(b, b.convert(source, x.dtype()), x.shape(), offset, row, col),
                  x);
}

}  // namespace

void register_diagonals(OperatorTable& table) {
  table.add("tril", tril);
  table.add("triu", triu);
  table.add("trace", trace);
  table.add("diag_embed", diag_embed);
  table.add("diagonal_copy", diagonal_copy);
  table.add("diagonal_backward", diagonal_backward);
  table.add("diagonal_scatter", diagonal_scatter);
}

}  // namespace torch_tpu::lowering
