#include <algorithm>

#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

// torch.nn.functional.pad lists pairs (low, high) from the last dimension backwards.
int64_t low_of(const IntList& padding, int64_t rank, int64_t dim) {
  return padding[static_cast<size_t>(2 * (rank - 1 - dim))];
}
int64_t high_of(const IntList& padding, int64_t rank, int64_t dim) {
  return padding[static_cast<size_t>(2 * (rank - 1 - dim) + 1)];
}

int64_t first_padded(const IntList& padding, int64_t rank) {
  return rank - static_cast<int64_t>(padding.size() / 2);
}

Value zero_pad(Lowering& b, Value x, int64_t dim, int64_t low, int64_t high) {
  Shape lows(static_cast<size_t>(x.rank()), 0);
  Shape highs = lows;
  lows[static_cast<size_t>(dim)] = low;
  highs[static_cast<size_t>(dim)] = high;
  return b.pad(x, b.constant(x.dtype(), 0), lows, highs);
}

Value constant_pad_nd(Lowering& b, Value x, IntList padding, Operand value) {
  Shape low(static_cast<size_t>(x.rank()), 0);
  Shape high = low;
  for (int64_t d = first_padded(padding, x.rank()); d < x.rank(); ++d) {
    low[static_cast<size_t>(d)] = low_of(padding, x.rank(), d);
    high[static_cast<size_t>(d)] = high_of(padding, x.rank(), d);
  }
  return b.pad(x, b.number(value, x.dtype()), low, high);
}

// What lies beyond the border: its mirror image without the border, or the border again and again.
enum class Border { kReflect, kReplicate };

// `n` elements beyond the border, in the order they have in the padded tensor.
Value beyond(Lowering& b, Value x, int64_t dim, int64_t n, bool low, Border border) {
  const int64_t size = x.dim(dim);
  if (border == Border::kReflect) {
    const int64_t dims[] = {dim};
    Value mirrored =
        low ? b.slice_dim(x, dim, 1, 1 + n) : b.slice_dim(x, dim, size - 1 - n, size - 1);
    return b.reverse(mirrored, dims);
  }
  Value edge = low ? b.slice_dim(x, dim, 0, 1) : b.slice_dim(x, dim, size - 1, size);
  Shape shape = x.shape();
  shape[static_cast<size_t>(dim)] = n;
  return b.broadcast(edge, shape);
}

Value pad_dim(Lowering& b, Value x, int64_t dim, int64_t low, int64_t high, Border border) {
  Values parts;
  if (low > 0) parts.push_back(beyond(b, x, dim, low, true, border));
  parts.push_back(x);
  if (high > 0) parts.push_back(beyond(b, x, dim, high, false, border));
  Value whole = b.concatenate(parts, dim);
  return b.slice_dim(whole, dim, std::max<int64_t>(-low, 0),
                     whole.dim(dim) - std::max<int64_t>(-high, 0));
}

Value border_pad(Lowering& b, Value x, const IntList& padding, Border border) {
  for (int64_t d = first_padded(padding, x.rank()); d < x.rank(); ++d) {
    x = pad_dim(b, x, d, low_of(padding, x.rank(), d), high_of(padding, x.rank(), d), border);
  }
  return x;
}

// The transpose of beyond(): a gradient of `size` along dim.
Value fold_back(Lowering& b, Value grad, int64_t dim, int64_t size, bool low, Border border) {
  const int64_t n = grad.dim(dim);
  const int64_t dims[] = {dim};
  if (border == Border::kReflect) {
    Value mirrored = b.reverse(grad, dims);
    return low ? zero_pad(b, mirrored, dim, 1, size - 1 - n)
               : zero_pad(b, mirrored, dim, size - 1 - n, 1);
  }
  Value edge = b.sum(grad, dims, true);
  return low ? zero_pad(b, edge, dim, 0, size - 1) : zero_pad(b, edge, dim, size - 1, 0);
}

Value unpad_dim(Lowering& b, Value grad, int64_t dim, int64_t size, int64_t low, int64_t high,
                Border border) {
  grad = zero_pad(b, grad, dim, std::max<int64_t>(-low, 0), std::max<int64_t>(-high, 0));
  low = std::max<int64_t>(low, 0);
  high = std::max<int64_t>(high, 0);
  Value out = b.slice_dim(grad, dim, low, low + size);
  if (low > 0)
    out = b.add(out, fold_back(b, b.slice_dim(grad, dim, 0, low), dim, size, true, border));
  if (high > 0) {
    out = b.add(out, fold_back(b, b.slice_dim(grad, dim, low + size, grad.dim(dim)), dim, size,
                               false, border));
  }
  return out;
}

Value border_unpad(Lowering& b, Value grad, Value x, const IntList& padding, Border border) {
  for (int64_t d = first_padded(padding, x.rank()); d < x.rank(); ++d) {
    grad = unpad_dim(b, grad, d, x.dim(d), low_of(padding, x.rank(), d),
                     high_of(padding, x.rank(), d), border);
  }
  return grad;
}

Value reflection_pad(Lowering& b, Value x, IntList padding) {
  return border_pad(b, x, padding, Border::kReflect);
}
Value replication_pad(Lowering& b, Value x, IntList padding) {
  return border_pad(b, x, padding, Border::kReplicate);
}
Value reflection_pad_backward(Lowering& b, Value grad, Value x, IntList padding) {
  return border_unpad(b, grad, x, padding, Border::kReflect);
}
Value replication_pad_backward(Lowering& b, Value grad, Value x, IntList padding) {
  return border_unpad(b, grad, x, padding, Border::kReplicate);
}

}  // namespace

void register_padding(OperatorTable& table) {
  table.add("constant_pad_nd", constant_pad_nd);
  for (const char* rank : {"1d", "2d", "3d"}) {
    table.add(std::string("reflection_pad") + rank, reflection_pad);
    table.add(std::string("replication_pad") + rank, replication_pad);
    table.add(std::string("reflection_pad") + rank + "_backward", reflection_pad_backward,
              {.opmath = true});
    table.add(std::string("replication_pad") + rank + "_backward", replication_pad_backward,
              {.opmath = true});
  }
}

}  // namespace torch_tpu::lowering
