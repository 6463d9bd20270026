#include <algorithm>

#include "lowering/operator_table.h"
#include "lowering/pooling.h"
#include "lowering/window.h"

namespace torch_tpu::lowering {

namespace {

using stablehlo::WindowDims;

// avg_pool2d and avg_pool3d differ in the number of trailing dimensions only.
struct Average {
  IntList kernel, stride, padding;
  bool count_include_pad;
  std::optional<int64_t> divisor_override;
  int64_t spatial() const { return static_cast<int64_t>(kernel.size()); }
};

Average average(size_t n, const IntList& kernel, const IntList& stride, const IntList& padding,
                bool count_include_pad, std::optional<int64_t> divisor_override) {
  const IntList k = per_dimension(kernel, n);
  TT_CHECK(!divisor_override || *divisor_override != 0, kInvalidArgument,
           "divisor must be not zero");
  return {k, per_dimension(stride, n, k), per_dimension(padding, n, IntList(n, 0)),
          count_include_pad, divisor_override};
}

// Elements averaged in each window along one dimension; windows reach into padding, never beyond
// it.
IntList counts(const Average& a, size_t i, int64_t in, int64_t out) {
  IntList count;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = o * a.stride[i] - a.padding[i];
    const int64_t end = std::min(start + a.kernel[i], in + a.padding[i]);
    const int64_t inside = std::min(end, in) - std::max<int64_t>(start, 0);
    count.push_back(std::max<int64_t>(a.count_include_pad ? end - start : inside, 1));
  }
  return count;
}

// What every window's sum is divided by, broadcastable to the windows `out`.
Value divisors(Lowering& b, DType type, const Average& a, const Shape& in, const Shape& out) {
  if (a.divisor_override) return b.scalar(type, Scalar::of(*a.divisor_override));
  const size_t n = a.kernel.size();
  int64_t common = 1;
  bool uniform = true;
  std::vector<IntList> per_dim;
  for (size_t i = 0; i < n; ++i) {
    per_dim.push_back(counts(a, i, in[in.size() - n + i], out[out.size() - n + i]));
    const IntList& c = per_dim.back();
    uniform &= std::all_of(c.begin(), c.end(), [&](int64_t v) { return v == c[0]; });
    if (!c.empty()) common *= c[0];
  }
  if (uniform) return b.scalar(type, Scalar::of(common));
  Value product;
  for (size_t i = 0; i < n; ++i) {
    Shape shape(n, 1);
    shape[i] = static_cast<int64_t>(per_dim[i].size());
    const std::vector<double> floats(per_dim[i].begin(), per_dim[i].end());
    Value count = is_int(type) ? b.constant_list(type, per_dim[i], shape)
                               : b.constant_floats(type, floats, shape);
    product = i == 0 ? count : b.bmul(product, count);
  }
  return product;
}

Value window_sums(Lowering& b, Value x, const IntList& kernel, const IntList& stride,
                  const IntList& low, const IntList& high) {
  const auto lead = static_cast<size_t>(x.rank()) - kernel.size();
  auto full = [&](const IntList& list, int64_t fill) {
    IntList out(lead, fill);
    out.insert(out.end(), list.begin(), list.end());
    return out;
  };
  WindowDims window;
  window.window = full(kernel, 1);
  window.strides = full(stride, 1);
  window.pad_low = full(low, 0);
  window.pad_high = full(high, 0);
  return b.reduce_window(x, b.constant(x.dtype(), 0), window, Combiner::kAdd);
}

Value avg_pool(Lowering& b, Value x, const Average& a) {
  const Shape& out = b.out().shape;
  const size_t n = a.kernel.size();
  const size_t lead = out.size() - n;
  if (numel(out) == 0) return b.constant(x.dtype(), 0, out);
  IntList low(n), high(n);
  for (size_t i = 0; i < n; ++i) {
    low[i] = a.padding[i];
    high[i] = (out[lead + i] - 1) * a.stride[i] + a.kernel[i] - x.shape()[lead + i] - low[i];
    // A window that starts so that the input's tail is unused.
    if (high[i] < 0) {
      const auto d = static_cast<int64_t>(lead + i);
      x = b.slice_dim(x, d, 0, x.dim(d) + high[i]);
      high[i] = 0;
    }
  }
  Value sums = window_sums(b, x, a.kernel, a.stride, low, high);
  return b.bdiv(sums, divisors(b, x.dtype(), a, x.shape(), out));
}

// Each input element receives what the windows over it got: grad spread by the stride, then summed
// in windows of stride one.
Value avg_pool_backward(Lowering& b, Value grad, Value x, const Average& a) {
  if (x.numel() == 0 || grad.numel() == 0) return b.zeros_like(x);
  const size_t n = a.kernel.size();
  const size_t lead = x.shape().size() - n;
  Value share = b.bdiv(grad, divisors(b, grad.dtype(), a, x.shape(), grad.shape()));
  IntList low(x.shape().size(), 0), high = low, interior = low;
  for (size_t i = 0; i < n; ++i) {
    const size_t d = lead + i;
    low[d] = a.kernel[i] - 1 - a.padding[i];
    interior[d] = a.stride[i] - 1;
    high[d] = x.shape()[d] + a.kernel[i] - 1 - ((grad.shape()[d] - 1) * a.stride[i] + 1) - low[d];
  }
  share = b.pad(share, b.constant(share.dtype(), 0), low, high, interior);
  return window_sums(b, share, a.kernel, IntList(n, 1), IntList(n, 0), IntList(n, 0));
}

template <size_t N>
Value avg_pool_nd(Lowering& b, Value self, IntList kernel, IntList stride, IntList padding,
                  bool ceil_mode, bool count_include_pad, std::optional<int64_t> divisor_override) {
  static_cast<void>(ceil_mode);  // is in the result's shape
  return avg_pool(b, self,
                  average(N, kernel, stride, padding, count_include_pad, divisor_override));
}

template <size_t N>
Value avg_pool_nd_backward(Lowering& b, Value grad, Value self, IntList kernel, IntList stride,
                           IntList padding, bool ceil_mode, bool count_include_pad,
                           std::optional<int64_t> divisor_override) {
  static_cast<void>(ceil_mode);
  return avg_pool_backward(
      b, grad, self, average(N, kernel, stride, padding, count_include_pad, divisor_override));
}

Band adaptive_band(int64_t in, int64_t out) {
  Band band;
  band.size = in;
  for (int64_t o = 0; o < out; ++o) {
    const int64_t start = adaptive_start(o, in, out);
    const int64_t count = adaptive_end(o, in, out) - start;
    band.start.push_back(start);
    band.weights.emplace_back(static_cast<size_t>(count), 1.0 / static_cast<double>(count));
  }
  return band;
}

Value adaptive_avg_pool(Lowering& b, Value x, IntList output_size) {
  const auto n = static_cast<int64_t>(output_size.size());
  for (int64_t i = n - 1; i >= 0; --i) {
    const int64_t d = x.rank() - n + i;
    x = apply_band(b, x, d, adaptive_band(x.dim(d), output_size[static_cast<size_t>(i)]));
  }
  return x;
}

template <int64_t N>
Value adaptive_avg_pool_backward(Lowering& b, Value grad, Value self) {
  for (int64_t d = self.rank() - N; d < self.rank(); ++d) {
    grad = apply_band(b, grad, d, transposed(adaptive_band(self.dim(d), grad.dim(d))));
  }
  return grad;
}

template <size_t N>
Value adaptive_avg_pool_nd(Lowering& b, Value self, IntList output_size) {
  return adaptive_avg_pool(b, self, per_dimension(output_size, N));
}

}  // namespace

void register_average_pooling(OperatorTable& table) {
  const RuleOptions options{.opmath = true};
  table.add("avg_pool2d", avg_pool_nd<2>, options);
  table.add("avg_pool3d", avg_pool_nd<3>, options);
  table.add("avg_pool2d_backward", avg_pool_nd_backward<2>, options);
  table.add("avg_pool3d_backward", avg_pool_nd_backward<3>, options);
  table.add("_adaptive_avg_pool2d", adaptive_avg_pool_nd<2>, options);
  table.add("_adaptive_avg_pool3d", adaptive_avg_pool_nd<3>, options);
  table.add("_adaptive_avg_pool2d_backward", adaptive_avg_pool_backward<2>, options);
  table.add("_adaptive_avg_pool3d_backward", adaptive_avg_pool_backward<3>, options);
}

}  // namespace torch_tpu::lowering
