#include <algorithm>

#include "lowering/families.h"
#include "lowering/operator_table.h"

namespace torch_tpu::lowering {

namespace {

using stablehlo::ConvDims;

// One convolution along its spatial dimensions; `pad_low` and `pad_high` may be negative.
struct Windows {
  IntList stride, pad_low, pad_high, lhs_dilation, rhs_dilation;
};

// The arguments every convolution operator shares, one entry per spatial dimension.
struct Geometry {
  IntList stride, padding, dilation, output_padding;
  bool transposed = false;
  int64_t groups = 1;
  size_t spatial = 0;
};

IntList expanded(const IntList& list, size_t n, int64_t fallback) {
  if (list.empty()) return IntList(n, fallback);
  return list.size() == 1 ? IntList(n, list[0]) : list;
}

Geometry geometry(Value weight, const IntList& stride, const IntList& padding,
                  const IntList& dilation, bool transposed, const IntList& output_padding,
                  int64_t groups) {
  const auto n = static_cast<size_t>(weight.rank() - 2);
  return {expanded(stride, n, 1),
          expanded(padding, n, 0),
          expanded(dilation, n, 1),
          expanded(output_padding, n, 0),
          transposed,
          groups,
          n};
}

IntList spatial_dims(size_t n) {
  IntList dims(n);
  for (size_t i = 0; i < n; ++i) dims[i] = static_cast<int64_t>(i) + 2;
  return dims;
}

// XLA's CPU compiler runs depthwise convolutions in a slow loop. Up to this many window elements, a
// sum of shifted slices is ten times as fast.
constexpr int64_t kUnrolledTaps = 64;

int64_t window_size(Value kernel) {
  int64_t n = 1;
  for (int64_t d = 2; d < kernel.rank(); ++d) n *= kernel.dim(d);
  return n;
}

// Applies `visit` to every window element: its index per dimension, row-major.
template <typename Visit>
void for_each_tap(const IntList& window, const Visit& visit) {
  IntList tap(window.size(), 0);
  for (;;) {
    visit(tap);
    size_t i = window.size();
    while (i > 0 && ++tap[i - 1] == window[i - 1]) tap[--i] = 0;
    if (i == 0) return;
  }
}

Value padded(Lowering& b, Value x, const Windows& w) {
  const size_t n = w.stride.size();
  IntList low(n + 2, 0), high(n + 2, 0), interior(n + 2, 0);
  for (size_t i = 0; i < n; ++i) {
    low[i + 2] = w.pad_low[i];
    high[i + 2] = w.pad_high[i];
    interior[i + 2] = w.lhs_dilation[i] - 1;
  }
  return b.pad(x, b.constant(x.dtype(), 0), low, high, interior);
}

// What window element `tap` of every output element sees of a padded input: [n, c, out...].
Value seen_by(Lowering& b, Value x, const IntList& tap, const Windows& w, const IntList& out) {
  IntList start(tap.size() + 2, 0), limit = x.shape(), stride(tap.size() + 2, 1);
  for (size_t i = 0; i < tap.size(); ++i) {
    start[i + 2] = tap[i] * w.rhs_dilation[i];
    limit[i + 2] = start[i + 2] + (out[i] - 1) * w.stride[i] + 1;
    stride[i + 2] = w.stride[i];
  }
  return b.slice(x, start, limit, stride);
}

IntList window_outputs(Value x, Value kernel, const Windows& w) {
  IntList out;
  for (size_t i = 0; i < w.stride.size(); ++i) {
    const auto d = static_cast<int64_t>(i) + 2;
    out.push_back((x.dim(d) - w.rhs_dilation[i] * (kernel.dim(d) - 1) - 1) / w.stride[i] + 1);
  }
  return out;
}

// One input channel per group: [n, c, in...] with [c * m, 1, k...].
Value depthwise_unrolled(Lowering& b, Value input, Value kernel, const Windows& w) {
  const DType wide = opmath(input.dtype());
  Value x = b.optimization_barrier(padded(b, b.convert(input, wide), w));
  kernel = b.convert(kernel, wide);
  const IntList out = window_outputs(x, kernel, w);
  const int64_t c = x.dim(1);
  const int64_t m = kernel.dim(0) / c;
  Shape grouped = {x.dim(0), c, m};
  grouped.insert(grouped.end(), out.begin(), out.end());
  IntList channels = Lowering::all_dims(static_cast<int64_t>(grouped.size()));
  channels.erase(channels.begin() + 2);
  Value sum;
  for_each_tap(IntList(kernel.shape().begin() + 2, kernel.shape().end()), [&](const IntList& tap) {
    IntList start(static_cast<size_t>(kernel.rank()), 0), limit = kernel.shape();
    for (size_t i = 0; i < tap.size(); ++i) {
      start[i + 2] = tap[i];
      limit[i + 2] = tap[i] + 1;
    }
    Value weight = b.reshape(b.slice(kernel, start, limit), {c, m});
    Value term = b.multiply(b.broadcast_in_dim(seen_by(b, x, tap, w, out), grouped, channels),
                            b.broadcast_in_dim(weight, grouped, IntList{1, 2}));
    sum = sum.defined() ? b.add(sum, term) : term;
  });
  grouped[1] = c * m;
  grouped.erase(grouped.begin() + 2);
  return b.reshape(sum, grouped);
}

// Half types give float32: what follows is added before the one rounding.
Value conv_windows(Lowering& b, Value input, Value kernel, Windows w, int64_t groups) {
  const size_t n = w.stride.size();
  if (b.settings().is_cpu && groups > 1 && kernel.dim(1) == 1 &&
      window_size(kernel) <= kUnrolledTaps) {
    return depthwise_unrolled(b, input, kernel, w);
  }
  const bool crops =
      std::any_of(w.pad_low.begin(), w.pad_low.end(), [](int64_t p) { return p < 0; }) ||
      std::any_of(w.pad_high.begin(), w.pad_high.end(), [](int64_t p) { return p < 0; });
  if (crops) {  // CPU compilers have no fast convolution with cropping windows
    input = padded(b, input, w);
    w.pad_low = w.pad_high = IntList(n, 0);
    w.lhs_dilation = IntList(n, 1);
  }
  ConvDims dims;
  dims.input_spatial = dims.kernel_spatial = dims.output_spatial = spatial_dims(n);
  dims.strides = w.stride;
  dims.pad_low = w.pad_low;
  dims.pad_high = w.pad_high;
  dims.lhs_dilation = w.lhs_dilation;
  dims.rhs_dilation = w.rhs_dilation;
  dims.feature_groups = groups;
  return b.conv(input, kernel, dims, opmath(input.dtype()));
}

// Correlation with weight [out, in / groups, k...], giving spatial sizes `size`.
Value correlate(Lowering& b, Value input, Value weight, const Geometry& g, const IntList& size) {
  Windows w{g.stride, g.padding, IntList(g.spatial), IntList(g.spatial, 1), g.dilation};
  for (size_t i = 0; i < g.spatial; ++i) {
    const auto d = static_cast<int64_t>(i) + 2;
    const int64_t reach = (size[i] - 1) * g.stride[i] + g.dilation[i] * (weight.dim(d) - 1) + 1;
    w.pad_high[i] = reach - input.dim(d) - g.padding[i];
  }
  return conv_windows(b, input, weight, std::move(w), g.groups);
}

// The adjoint of `correlate` in its input: input [n, o, ...], weight [o, c / groups, k...] -> [n,
// c, size...].
Value correlate_adjoint(Lowering& b, Value input, Value weight, const Geometry& g,
                        const IntList& size) {
  const int64_t o = weight.dim(0) / g.groups;
  const int64_t c = weight.dim(1);
  Shape grouped = weight.shape();
  grouped[0] = o;
  grouped.insert(grouped.begin(), g.groups);
  IntList swap = Lowering::all_dims(static_cast<int64_t>(grouped.size()));
  std::swap(swap[1], swap[2]);
  Shape merged = weight.shape();
  merged[0] = g.groups * c;
  merged[1] = o;
  Value kernel = b.reshape(b.transpose(b.reshape(weight, grouped), swap), merged);
  kernel = b.reverse(kernel, spatial_dims(g.spatial));
  Windows w{IntList(g.spatial, 1), IntList(g.spatial), IntList(g.spatial), g.stride, g.dilation};
  for (size_t i = 0; i < g.spatial; ++i) {
    const auto d = static_cast<int64_t>(i) + 2;
    const int64_t reach = g.dilation[i] * (weight.dim(d) - 1);
    w.pad_low[i] = reach - g.padding[i];
    w.pad_high[i] = size[i] + reach - ((input.dim(d) - 1) * g.stride[i] + 1) - w.pad_low[i];
  }
  return conv_windows(b, input, kernel, std::move(w), g.groups);
}

// The gradient of `correlate` in its weight: input [n, c, ...], grad [n, o, ...] -> `shape`
// [o, c / groups, k...]. The batch is contracted; groups stay feature groups, for which compilers
// have better forms than for batch groups.
Value correlate_weight(Lowering& b, Value input, Value grad, const Geometry& g,
                       const Shape& shape) {
  const int64_t n = input.dim(0);
  const int64_t c = shape[1];
  Shape grouped = input.shape();
  grouped[1] = c;
  grouped.insert(grouped.begin() + 1, g.groups);
  IntList order = Lowering::all_dims(static_cast<int64_t>(grouped.size()));
  std::swap(order[0], order[2]);
  Shape merged = input.shape();
  merged[0] = c;
  merged[1] = g.groups * n;
  Value lhs = b.reshape(b.transpose(b.reshape(input, grouped), order), merged);
  Value kernel = b.move_dim(grad, 0, 1);
  Windows w{g.dilation, g.padding, IntList(g.spatial), IntList(g.spatial, 1), g.stride};
  for (size_t i = 0; i < g.spatial; ++i) {
    const auto d = static_cast<int64_t>(i) + 2;
    const int64_t reach = (shape[i + 2] - 1) * g.dilation[i] + (grad.dim(d) - 1) * g.stride[i] + 1;
    w.pad_high[i] = reach - input.dim(d) - g.padding[i];
  }
  return b.move_dim(conv_windows(b, lhs, kernel, std::move(w), g.groups), 0, 1);
}

IntList spatial_sizes(Value x) { return IntList(x.shape().begin() + 2, x.shape().end()); }

IntList output_sizes(Value input, Value weight, const Geometry& g) {
  IntList out(g.spatial);
  for (size_t i = 0; i < g.spatial; ++i) {
    const auto d = static_cast<int64_t>(i) + 2;
    const int64_t reach = g.dilation[i] * (weight.dim(d) - 1) + 1;
    out[i] = g.transposed
                 ? (input.dim(d) - 1) * g.stride[i] - 2 * g.padding[i] + reach + g.output_padding[i]
                 : (input.dim(d) + 2 * g.padding[i] - reach) / g.stride[i] + 1;
  }
  return out;
}

Value forward(Lowering& b, Value input, Value weight, std::optional<Value> bias,
              const Geometry& g) {
  const int64_t features = g.transposed ? weight.dim(1) * g.groups : weight.dim(0);
  const IntList size = output_sizes(input, weight, g);
  Shape shape = {input.dim(0), features};
  shape.insert(shape.end(), size.begin(), size.end());
  const DType wide = opmath(input.dtype());
  Value out;
  if (input.numel() == 0 || weight.numel() == 0 || numel(shape) == 0) {
    out = b.constant(wide, 0, shape);
  } else {
    out = g.transposed ? correlate_adjoint(b, input, weight, g, size)
                       : correlate(b, input, weight, g, size);
  }
  if (bias) out = b.badd(out, b.broadcast_in_dim(b.convert(*bias, wide), shape, IntList{1}));
  return b.convert(out, input.dtype());
}

Value convolution(Lowering& b, Value input, Value weight, std::optional<Value> bias, IntList stride,
                  IntList padding, IntList dilation, bool transposed, IntList output_padding,
                  int64_t groups) {
  // Without input channels, PyTorch's result has no channels either.
  if (b.num_outputs() > 0 && b.out().numel() == 0) return b.full(b.out(), 0);
  const Geometry g =
      geometry(weight, stride, padding, dilation, transposed, output_padding, groups);
  if (input.rank() == weight.rank()) return forward(b, input, weight, bias, g);
  return b.squeeze_dim(forward(b, b.unsqueeze(input, 0), weight, bias, g), 0);
}

Results backward(Lowering& b, Value grad, Value input, Value weight, const Geometry& g,
                 const IntList& mask, bool has_bias) {
  const DType type = input.dtype();
  const bool empty = grad.numel() == 0 || input.numel() == 0 || weight.numel() == 0;
  Results out(3);
  if (mask[0] != 0) {
    Value d = empty          ? b.zeros_like(input)
              : g.transposed ? correlate(b, grad, weight, g, spatial_sizes(input))
                             : correlate_adjoint(b, grad, weight, g, spatial_sizes(input));
    out[0] = b.convert(d, type);
  }
  if (mask[1] != 0) {
    Value d = empty          ? b.zeros_like(weight)
              : g.transposed ? correlate_weight(b, grad, input, g, weight.shape())
                             : correlate_weight(b, input, grad, g, weight.shape());
    out[1] = b.convert(d, type);
  }
  if (mask[2] != 0 && has_bias) {
    IntList dims = spatial_dims(g.spatial);
    dims.push_back(0);
    out[2] = b.convert(b.sum(b.convert(grad, opmath(type)), dims), type);
  }
  return out;
}

Results convolution_backward(Lowering& b, Value grad, Value input, Value weight,
                             std::optional<IntList> bias_sizes, IntList stride, IntList padding,
                             IntList dilation, bool transposed, IntList output_padding,
                             int64_t groups, IntList output_mask) {
  static_cast<void>(bias_sizes);
  const Geometry g =
      geometry(weight, stride, padding, dilation, transposed, output_padding, groups);
  if (input.rank() == weight.rank()) return backward(b, grad, input, weight, g, output_mask, true);
  Results out =
      backward(b, b.unsqueeze(grad, 0), b.unsqueeze(input, 0), weight, g, output_mask, true);
  if (out[0]) out[0] = b.squeeze_dim(*out[0], 0);
  return out;
}

Results convolution_backward_overrideable(Lowering& b, Value grad, Value input, Value weight,
                                          IntList stride, IntList padding, IntList dilation,
                                          bool transposed, IntList output_padding, int64_t groups,
                                          IntList output_mask) {
  return convolution_backward(b, grad, input, weight, std::nullopt, std::move(stride),
                              std::move(padding), std::move(dilation), transposed,
                              std::move(output_padding), groups, std::move(output_mask));
}

// The legacy per-layout operators: kernel_size repeats what weight says.
Value slow_conv(Lowering& b, Value self, Value weight, IntList kernel_size,
                std::optional<Value> bias, IntList stride, IntList padding) {
  if (weight.rank() == 2) {  // [out, in * k...]
    Shape shape = {weight.dim(0), weight.dim(1) / numel(kernel_size)};
    shape.insert(shape.end(), kernel_size.begin(), kernel_size.end());
    weight = b.reshape(weight, shape);
  }
  return convolution(b, self, weight, bias, std::move(stride), std::move(padding), {}, false, {},
                     1);
}

Value slow_conv_dilated(Lowering& b, Value self, Value weight, IntList kernel_size,
                        std::optional<Value> bias, IntList stride, IntList padding,
                        IntList dilation) {
  static_cast<void>(kernel_size);
  return convolution(b, self, weight, bias, std::move(stride), std::move(padding),
                     std::move(dilation), false, {}, 1);
}

Value slow_conv_transpose(Lowering& b, Value self, Value weight, IntList kernel_size,
                          std::optional<Value> bias, IntList stride, IntList padding,
                          IntList output_padding, IntList dilation) {
  static_cast<void>(kernel_size);
  return convolution(b, self, weight, bias, std::move(stride), std::move(padding),
                     std::move(dilation), true, std::move(output_padding), 1);
}

Value conv_depthwise(Lowering& b, Value self, Value weight, IntList kernel_size,
                     std::optional<Value> bias, IntList stride, IntList padding, IntList dilation) {
  static_cast<void>(kernel_size);
  return convolution(b, self, weight, bias, std::move(stride), std::move(padding),
                     std::move(dilation), false, {}, self.dim(-1 - (weight.rank() - 2)));
}

Results slow_conv2d_backward(Lowering& b, Value grad, Value self, Value weight, IntList kernel_size,
                             IntList stride, IntList padding, IntList output_mask) {
  static_cast<void>(kernel_size);
  return convolution_backward(b, grad, self, weight, std::nullopt, std::move(stride),
                              std::move(padding), {}, false, {}, 1, std::move(output_mask));
}

}  // namespace

void register_convolution(OperatorTable& table) {
  table.add("convolution", convolution);
  table.add("convolution_overrideable", convolution);
  table.add("_convolution", convolution);
  table.add("convolution_backward", convolution_backward);
  table.add("convolution_backward_overrideable", convolution_backward_overrideable);
  table.add("_slow_conv2d_forward", slow_conv);
  table.add("_slow_conv2d_backward.output_mask", slow_conv2d_backward);
  table.add("slow_conv3d_forward", slow_conv);
  table.add("slow_conv_dilated2d", slow_conv_dilated);
  table.add("slow_conv_dilated3d", slow_conv_dilated);
  table.add("slow_conv_transpose2d", slow_conv_transpose);
  table.add("slow_conv_transpose3d", slow_conv_transpose);
  table.add("_conv_depthwise2d", conv_depthwise);
  table.add("conv_depthwise3d", conv_depthwise);
}

}  // namespace torch_tpu::lowering
