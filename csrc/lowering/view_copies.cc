// Views as values: the copies that functionalisation asks for, their scatters and their gradients.
#include <algorithm>

#include "lowering/families.h"
#include "lowering/index_math.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

// --- the same elements in the shape of the result

Value reshaped(Lowering& b, Value x) { return b.reshape(x, b.out().shape); }

Value view_dtype(Lowering& b, Value x, DType dtype) {
  // One byte per bool on both sides, so the bits of a bool are those of a uint8.
  if (is_bool(x.dtype())) x = b.convert(x, DType::kU8);
  const bool to_bool = is_bool(dtype);
  const DType bits = to_bool ? DType::kU8 : dtype;
  const int64_t from = byte_size(x.dtype());
  const int64_t to = byte_size(bits);
  Value r;
  if (from >= to) {
    r = b.bitcast_convert(x, bits);
  } else {
    Shape grouped = x.shape();
    grouped.back() /= to / from;
    grouped.push_back(to / from);
    r = b.bitcast_convert(b.reshape(x, grouped), bits);
  }
  if (to_bool) r = b.convert(r, DType::kPred);
  return b.reshape(r, b.out().shape);
}

Value expand_copy(Lowering& b, Value x, Ignored) { return b.broadcast(x, b.out().shape); }

Value permute_copy(Lowering& b, Value x, IntList dims) {
  return b.transpose(x, Lowering::wrap_dims(dims, x.rank()));
}

Value transpose_copy(Lowering& b, Value x, int64_t dim0, int64_t dim1) {
  if (x.rank() == 0) return x;
  IntList dims = Lowering::all_dims(x.rank());
  std::swap(dims[static_cast<size_t>(Lowering::wrap_dim(dim0, x.rank()))],
            dims[static_cast<size_t>(Lowering::wrap_dim(dim1, x.rank()))]);
  return b.transpose(x, dims);
}

Value t_copy(Lowering& b, Value x) { return x.rank() < 2 ? x : transpose_copy(b, x, 0, 1); }

Value view_as_real(Lowering& b, Value x) {
  const Value parts[] = {b.unsqueeze(b.real(x), x.rank()), b.unsqueeze(b.imag(x), x.rank())};
  return b.concatenate(parts, x.rank());
}

Value view_as_complex(Lowering& b, Value x) {
  const int64_t last = x.rank() - 1;
  return b.complex(b.squeeze_dim(b.slice_dim(x, last, 0, 1), last),
                   b.squeeze_dim(b.slice_dim(x, last, 1, 2), last));
}

// --- parts of a dimension

// start and end of x[start:end:step] as Python clips them.
std::pair<int64_t, int64_t> slice_bounds(int64_t size, std::optional<int64_t> start,
                                         std::optional<int64_t> end) {
  auto clip = [size](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  const int64_t first = clip(start.value_or(0));
  return {first, std::max(first, clip(end.value_or(size)))};
}

Value slice_copy(Lowering& b, Value x, int64_t dim, std::optional<int64_t> start,
                 std::optional<int64_t> end, int64_t step) {
  dim = Lowering::wrap_dim(dim, x.rank());
  const auto [first, last] = slice_bounds(x.dim(dim), start, end);
  return b.slice_dim(x, dim, first, last, step);
}

Value narrow_copy(Lowering& b, Value x, int64_t dim, int64_t start, int64_t length) {
  dim = Lowering::wrap_dim(dim, x.rank());
  if (start < 0) start += x.dim(dim);
  return b.slice_dim(x, dim, start, start + length);
}

Value select_copy(Lowering& b, Value x, int64_t dim, int64_t index) {
  dim = Lowering::wrap_dim(dim, x.rank());
  if (index < 0) index += x.dim(dim);
  return b.squeeze_dim(b.slice_dim(x, dim, index, index + 1), dim);
}

Values split_sizes(Lowering& b, Value x, IntList sizes, int64_t dim) {
  dim = Lowering::wrap_dim(dim, x.rank());
  Values out;
  int64_t start = 0;
  for (int64_t n : sizes) {
    out.push_back(b.slice_dim(x, dim, start, start + n));
    start += n;
  }
  return out;
}

Values split_copy(Lowering& b, Value x, int64_t size, int64_t dim) {
  dim = Lowering::wrap_dim(dim, x.rank());
  const int64_t n = x.dim(dim);
  if (n == 0) return {x};
  IntList sizes;
  for (int64_t at = 0; at < n; at += size) sizes.push_back(std::min(size, n - at));
  return split_sizes(b, x, sizes, dim);
}

Values unbind_copy(Lowering& b, Value x, int64_t dim) {
  dim = Lowering::wrap_dim(dim, x.rank());
  Values out;
  for (int64_t i = 0; i < x.dim(dim); ++i) out.push_back(select_copy(b, x, dim, i));
  return out;
}

// --- writes into a part

// `part` (at start, start + step, ...) in zeros of `shape`.
Value placed(Lowering& b, Value part, const Shape& shape, int64_t dim, int64_t start,
             int64_t step) {
  Shape low(shape.size(), 0);
  Shape high = low;
  Shape interior = low;
  const auto d = static_cast<size_t>(dim);
  if (part.dim(dim) == 0) return b.constant(part.dtype(), 0, shape);
  const int64_t covered = (part.dim(dim) - 1) * step + 1;
  low[d] = start;
  interior[d] = step - 1;
  high[d] = shape[d] - start - covered;
  return b.pad(part, b.constant(part.dtype(), 0), low, high, interior);
}

Value overwritten(Lowering& b, Value x, Value part, int64_t dim, int64_t start, int64_t step) {
  if (part.numel() == 0) return x;
  if (step == 1) {
    Values starts(static_cast<size_t>(x.rank()), b.constant_int(DType::kS64, 0));
    starts[static_cast<size_t>(dim)] = b.constant_int(DType::kS64, start);
    return b.dynamic_update_slice(x, part, starts);
  }
  Value mask =
      placed(b, b.constant_int(DType::kPred, 1, part.shape()), x.shape(), dim, start, step);
  return b.select(mask, placed(b, part, x.shape(), dim, start, step), x);
}

Value slice_scatter(Lowering& b, Value x, Value source, int64_t dim, std::optional<int64_t> start,
                    std::optional<int64_t> end, int64_t step) {
  dim = Lowering::wrap_dim(dim, x.rank());
  const auto [first, last] = slice_bounds(x.dim(dim), start, end);
  Shape part = x.shape();
  part[static_cast<size_t>(dim)] = (last - first + step - 1) / step;
  TT_CHECK(source.shape() == part, kInvalidArgument,
           "expected src to have a size equal to the slice of self. src size = ",
           to_string(source.shape()), ", slice size = ", to_string(part));
  return overwritten(b, x, b.convert(source, x.dtype()), dim, first, step);
}

Value select_scatter(Lowering& b, Value x, Value source, int64_t dim, int64_t index) {
  dim = Lowering::wrap_dim(dim, x.rank());
  if (index < 0) index += x.dim(dim);
  return overwritten(b, x, b.unsqueeze(b.convert(source, x.dtype()), dim), dim, index, 1);
}

Value slice_backward(Lowering& b, Value grad, IntList sizes, int64_t dim, int64_t start,
                     int64_t end, int64_t step) {
  dim = Lowering::wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  const auto [first, last] = slice_bounds(sizes[static_cast<size_t>(dim)], start, end);
  static_cast<void>(last);
  return placed(b, grad, sizes, dim, first, step);
}

Value select_backward(Lowering& b, Value grad, IntList sizes, int64_t dim, int64_t index) {
  dim = Lowering::wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  if (index < 0) index += sizes[static_cast<size_t>(dim)];
  return placed(b, b.unsqueeze(grad, dim), sizes, dim, index, 1);
}

// --- windows along one dimension

// Start positions of windows plus the position within: [windows, size].
Value window_positions(Lowering& b, int64_t windows, int64_t size, int64_t step, int64_t n) {
  const TensorType type{index_type(std::max(n, (windows - 1) * step + size)), {windows, size}};
  Value start = b.multiply(b.iota(type, 0), b.constant_int(type.dtype, step, type.shape));
  return b.add(start, b.iota(type, 1));
}

Value unfold_copy(Lowering& b, Value x, int64_t dim, int64_t size, int64_t step) {
  const bool scalar = x.rank() == 0;
  x = at_least_1d(b, x);
  dim = Lowering::wrap_dim(dim, x.rank());
  const int64_t windows = (x.dim(dim) - size) / step + 1;
  Value taken = take_slices(b, x, dim, window_positions(b, windows, size, step, x.dim(dim)));
  return scalar ? b.reshape(taken, b.out().shape) : b.move_dim(taken, dim + 1, -1);
}

Value unfold_backward(Lowering& b, Value grad, IntList sizes, int64_t dim, int64_t size,
                      int64_t step) {
  if (sizes.empty()) return b.reshape(b.sum(grad, Lowering::all_dims(grad.rank())), {});
  dim = Lowering::wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  Value windows = b.move_dim(grad, -1, dim + 1);
  Shape flat = sizes;
  flat[static_cast<size_t>(dim)] = windows.dim(dim) * size;
  Value index =
      b.flatten(window_positions(b, windows.dim(dim), size, step, sizes[static_cast<size_t>(dim)]));
  return scatter_slices(b, b.constant(grad.dtype(), 0, sizes), dim, index, b.reshape(windows, flat),
                        Combiner::kAdd);
}

}  // namespace

void register_view_copies(OperatorTable& table) {
  for (const char* name :
       {"alias_copy", "detach_copy", "view_copy", "_reshape_alias_copy", "squeeze_copy",
        "squeeze_copy.dim", "squeeze_copy.dims", "unsqueeze_copy", "lift_fresh_copy"}) {
    table.add(name, reshaped);
  }
  table.add("view_copy.dtype", view_dtype);
  table.add("expand_copy", expand_copy);
  table.add("permute_copy", permute_copy);
  table.add("transpose_copy.int", transpose_copy);
  table.add("t_copy", t_copy);
  table.add("view_as_real_copy", view_as_real);
  table.add("view_as_complex_copy", view_as_complex);
  table.add("slice_copy.Tensor", slice_copy);
  table.add("narrow_copy", narrow_copy);
  table.add("select_copy.int", select_copy);
  table.add("split_copy.Tensor", split_copy);
  table.add("split_with_sizes_copy", split_sizes);
  table.add("unbind_copy.int", unbind_copy);
  table.add("slice_scatter", slice_scatter);
  table.add("select_scatter", select_scatter);
  table.add("slice_backward", slice_backward);
  table.add("select_backward", select_backward);
  table.add("unfold_copy", unfold_copy);
  table.add("unfold_backward", unfold_backward, {.opmath = true});
}

}  // namespace torch_tpu::lowering
