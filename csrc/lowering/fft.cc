#include <algorithm>
#include <cmath>
#include <functional>

#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::Fft;

// Factor of PyTorch's normalisation modes: 0 none, 1 by sqrt(n), 2 by n.
double factor(int64_t mode, int64_t n) {
  if (mode == 1) return 1.0 / std::sqrt(static_cast<double>(n));
  return mode == 2 ? 1.0 / static_cast<double>(n) : 1.0;
}

int64_t size_of(const Shape& shape, const IntList& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= shape[static_cast<size_t>(d)];
  return n;
}

Value scaled(Lowering& b, Value x, double c) { return c == 1.0 ? x : b.mul_scalar(x, c); }

// The permutation which moves `dims` behind the others, and its inverse.
struct Order {
  IntList there, back;
  Order(const IntList& dims, int64_t rank) {
    for (int64_t d = 0; d < rank; ++d) {
      if (std::find(dims.begin(), dims.end(), d) == dims.end()) there.push_back(d);
    }
    there.insert(there.end(), dims.begin(), dims.end());
    back.resize(there.size());
    for (size_t i = 0; i < there.size(); ++i)
      back[static_cast<size_t>(there[i])] = static_cast<int64_t>(i);
  }
};

// Transforms along `dims`, at most three at a time (a limit of StableHLO).
Value along(Lowering& b, Value x, IntList dims,
            const std::function<Value(Value, const IntList& lengths)>& transform) {
  while (!dims.empty()) {
    const auto n = std::min<size_t>(dims.size(), 3);
    const IntList group(dims.end() - static_cast<std::ptrdiff_t>(n), dims.end());
    dims.resize(dims.size() - n);
    const Order order(group, x.rank());
    IntList lengths;
    for (int64_t d : group) lengths.push_back(x.dim(d));
    x = b.transpose(transform(b.transpose(x, order.there), lengths), order.back);
  }
  return x;
}

// The unnormalised transform, times `c`.
Value complex_fft(Lowering& b, Value x, const IntList& dims, bool forward, double c) {
  // XLA's inverse divides by the number of points.
  if (!forward) c *= static_cast<double>(size_of(x.shape(), dims));
  Value y = along(b, x, dims, [&](Value v, const IntList& lengths) {
    return b.fft(v, forward ? Fft::kFft : Fft::kIfft, lengths);
  });
  return scaled(b, y, c);
}

Value fft_c2c(Lowering& b, Value x, IntList dims, int64_t mode, bool forward) {
  dims = Lowering::wrap_dims(dims, x.rank());
  if (dims.empty() || x.numel() == 0) return x;
  return complex_fft(b, x, dims, forward, factor(mode, size_of(x.shape(), dims)));
}

Value fft_r2c(Lowering& b, Value x, IntList dims, int64_t mode, bool onesided) {
  dims = Lowering::wrap_dims(dims, x.rank());
  const DType type = complex_of(x.dtype());
  if (x.numel() == 0) return b.full({type, b.out().shape}, 0);
  const double c = factor(mode, size_of(x.shape(), dims));
  if (!onesided) return complex_fft(b, b.convert(x, type), dims, true, c);
  const IntList last{dims.back()};
  Value y = along(b, x, last,
                  [&](Value v, const IntList& lengths) { return b.fft(v, Fft::kRfft, lengths); });
  dims.pop_back();
  return complex_fft(b, y, dims, true, c);
}

Value fft_c2r(Lowering& b, Value x, IntList dims, int64_t mode, int64_t last_size) {
  dims = Lowering::wrap_dims(dims, x.rank());
  const DType type = real_of(x.dtype());
  Shape shape = x.shape();
  shape[static_cast<size_t>(dims.back())] = last_size;
  if (numel(shape) == 0) return b.full({type, shape}, 0);
  const double c = factor(mode, size_of(shape, dims)) * static_cast<double>(last_size);
  const IntList last{dims.back()};
  dims.pop_back();
  x = complex_fft(b, x, dims, false, 1.0);
  Value y = along(b, x, last, [&](Value v, const IntList& lengths) {
    const int64_t half = last_size / 2 + 1;
    if (lengths[0] > half) v = b.slice_dim(v, v.rank() - 1, 0, half);
    if (lengths[0] < half) {
      IntList low(static_cast<size_t>(v.rank()), 0), high = low;
      high.back() = half - lengths[0];
      v = b.pad(v, b.constant(v.dtype(), 0), low, high);
    }
    const int64_t length[] = {last_size};
    return b.fft(v, Fft::kIrfft, length);
  });
  return scaled(b, y, c);
}

}  // namespace

void register_fft(OperatorTable& table) {
  table.add("_fft_c2c", fft_c2c);
  table.add("_fft_r2c", fft_r2c);
  table.add("_fft_c2r", fft_c2r);
}

}  // namespace torch_tpu::lowering
