#include <algorithm>

#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

Value cat(Lowering& b, Values xs, int64_t dim) {
  // PyTorch lets vectors of no elements through whatever the other shapes are.
  auto skipped = [](Value x) { return x.rank() == 1 && x.dim(0) == 0; };
  Values kept;
  for (Value x : xs) {
    if (!skipped(x)) kept.push_back(b.convert(x, b.out().dtype));
  }
  if (kept.empty()) return b.constant(b.out().dtype, 0, b.out().shape);
  return b.concatenate(kept, Lowering::wrap_dim(dim, kept[0].rank()));
}

Value stack(Lowering& b, Values xs, int64_t dim) {
  dim = Lowering::wrap_dim(dim, xs.at(0).rank() + 1);
  for (Value& x : xs) x = b.unsqueeze(b.convert(x, b.out().dtype), dim);
  return b.concatenate(xs, dim);
}

Value flip(Lowering& b, Value x, IntList dims) {
  return b.reverse(x, Lowering::wrap_dims(dims, x.rank()));
}

Value roll_dim(Lowering& b, Value x, int64_t dim, int64_t shift) {
  const int64_t n = x.dim(dim);
  if (n == 0) return x;
  const int64_t split = ((n - shift) % n + n) % n;
  if (split == 0) return x;
  const Value parts[] = {b.slice_dim(x, dim, split, n), b.slice_dim(x, dim, 0, split)};
  return b.concatenate(parts, dim);
}

Value roll(Lowering& b, Value x, IntList shifts, IntList dims) {
  if (dims.empty()) {
    TT_CHECK(shifts.size() == 1, kInvalidArgument,
             "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:0");
    return b.reshape(roll_dim(b, b.flatten(x), 0, shifts[0]), x.shape());
  }
  TT_CHECK(shifts.size() == dims.size(), kInvalidArgument,
           "shifts and dimensions must align. shifts: ", shifts.size(), ", dims:", dims.size());
  for (size_t i = 0; i < dims.size() && x.rank() > 0; ++i) {
    x = roll_dim(b, x, Lowering::wrap_dim(dims[i], x.rank()), shifts[i]);
  }
  return x;
}

Value repeat(Lowering& b, Value x, IntList repeats) {
  Shape padded = x.shape();
  padded.insert(padded.begin(), repeats.size() - padded.size(), 1);
  Shape spread;
  IntList from;
  for (size_t i = 0; i < repeats.size(); ++i) {
    spread.push_back(repeats[i]);
    from.push_back(static_cast<int64_t>(spread.size()));
    spread.push_back(padded[i]);
  }
  return b.reshape(b.broadcast_in_dim(b.reshape(x, padded), spread, from), b.out().shape);
}

Value rot90(Lowering& b, Value x, int64_t k, IntList dims) {
  TT_CHECK(dims.size() == 2 && x.rank() >= 2, kInvalidArgument,
           "expected total rotation dims == 2, but got dims = ", dims.size());
  dims = Lowering::wrap_dims(dims, x.rank());
  TT_CHECK(dims[0] != dims[1], kInvalidArgument, "expected rotation dims to be different");
  IntList swapped = Lowering::all_dims(x.rank());
  std::swap(swapped[static_cast<size_t>(dims[0])], swapped[static_cast<size_t>(dims[1])]);
  switch ((k % 4 + 4) % 4) {
    case 1:
      return b.transpose(b.reverse(x, {&dims[1], 1}), swapped);
    case 2:
      return b.reverse(x, dims);
    case 3:
      return b.transpose(b.reverse(x, {&dims[0], 1}), swapped);
    default:
      return x;
  }
}

// [..., C r r, H, W] -> [..., C, H r, W r]
Value pixel_shuffle(Lowering& b, Value x, int64_t r) {
  const int64_t batch = numel(Shape(x.shape().begin(), x.shape().end() - 3));
  const int64_t h = x.dim(-2);
  const int64_t w = x.dim(-1);
  Value split = b.reshape(x, {batch, x.dim(-3) / (r * r), r, r, h, w});
  return b.reshape(b.permute(split, {0, 1, 4, 2, 5, 3}), b.out().shape);
}

Value pixel_unshuffle(Lowering& b, Value x, int64_t r) {
  const int64_t batch = numel(Shape(x.shape().begin(), x.shape().end() - 3));
  Value split = b.reshape(x, {batch, x.dim(-3), x.dim(-2) / r, r, x.dim(-1) / r, r});
  return b.reshape(b.permute(split, {0, 1, 3, 5, 2, 4}), b.out().shape);
}

Value channel_shuffle(Lowering& b, Value x, int64_t groups) {
  const int64_t n = x.dim(0);
  const int64_t rest = numel(Shape(x.shape().begin() + 2, x.shape().end()));
  Value split = b.reshape(x, {n, groups, x.dim(1) / groups, rest});
  return b.reshape(b.permute(split, {0, 2, 1, 3}), x.shape());
}

Value block_diag(Lowering& b, Values xs) {
  Value out = b.constant(b.out().dtype, 0, b.out().shape);
  int64_t row = 0;
  int64_t col = 0;
  for (Value x : xs) {
    if (x.rank() < 2) x = b.reshape(x, {1, x.numel()});
    x = b.convert(x, out.dtype());
    if (x.numel() != 0) {
      const Value start[] = {b.constant_int(DType::kS64, row), b.constant_int(DType::kS64, col)};
      out = b.dynamic_update_slice(out, x, start);
    }
    row += x.dim(0);
    col += x.dim(1);
  }
  return out;
}

}  // namespace

void register_shape(OperatorTable& table) {
  register_diagonals(table);
  register_padding(table);
  register_view_copies(table);
  register_unfold(table);
  table.add("cat", cat);
  table.add("stack", stack);
  table.add("_stack", stack);
  table.add("flip", flip);
  table.add("roll", roll);
  table.add("repeat", repeat);
  table.add("rot90", rot90);
  table.add("pixel_shuffle", pixel_shuffle);
  table.add("pixel_unshuffle", pixel_unshuffle);
  table.add("channel_shuffle", channel_shuffle);
  table.add("native_channel_shuffle", channel_shuffle);
  table.add("block_diag", block_diag);
}

}  // namespace torch_tpu::lowering
