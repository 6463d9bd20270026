#include "lowering/operator_table.h"
#include "lowering/resample.h"
#include "lowering/window.h"

namespace torch_tpu::lowering {

namespace {

// Input [n, c, in...], grid [n, out..., spatial] in [-1, 1] with the last dimension's coordinate
// first (Jaderberg et al., "Spatial transformer networks", 2015).

enum class Interpolation : int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum class Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

// A position along one dimension and its derivative in the position that came in.
struct Position {
  Value at, slope;
};

struct Sampler {
  Lowering& b;
  Value input;
  Interpolation interpolation;
  Padding padding;
  bool align_corners;
  std::vector<Position> positions{};  // per spatial dimension, [n, out...], in pixels

  size_t spatial() const { return static_cast<size_t>(input.rank()) - 2; }
  int64_t size(size_t i) const { return input.dim(static_cast<int64_t>(i) + 2); }
  // [n, c, out...]
  Shape result_shape() const { return with_channels(positions[0].at.shape()); }
  Shape with_channels(Shape points) const {
    points.insert(points.begin() + 1, input.dim(1));
    return points;
  }

  // [-1, 1] to pixels.
  Position unnormalised(Value x, size_t i) const {
    const auto n = static_cast<double>(size(i));
    if (align_corners) {
      const double half = (n - 1) / 2;
      return {b.mul_scalar(b.mul_scalar(b.add_scalar(x, 1), 0.5), n - 1), b.full_like(x, half)};
    }
    return {b.mul_scalar(b.add_scalar(b.mul_scalar(b.add_scalar(x, 1), n), -1), 0.5),
            b.full_like(x, n / 2)};
  }

  // At the borders themselves the derivative is zero.
  Position clipped(const Position& p, size_t i) const {
    Value low = b.zeros_like(p.at);
    Value high = b.full_like(p.at, static_cast<double>(size(i) - 1));
    Value inside = b.and_(b.compare(p.at, low, Compare::kGt), b.compare(p.at, high, Compare::kLt));
    return {b.minimum(high, b.maximum(p.at, low)), b.select(inside, p.slope, low)};
  }

  Position reflected(const Position& p, size_t i) const {
    const double low = align_corners ? 0 : -0.5;
    const double span = static_cast<double>(align_corners ? size(i) - 1 : size(i));
    if (span == 0) return {b.zeros_like(p.at), b.zeros_like(p.at)};
    Value from_low = b.add_scalar(p.at, -low);
    Value distance = b.abs(from_low);
    Value width = b.full_like(p.at, span);
    Value extra = b.remainder(distance, width);
    Value flips = b.floor(b.divide(distance, b.optimization_barrier(width)));
    Value odd =
        b.compare(b.remainder(flips, b.full_like(flips, 2)), b.zeros_like(flips), Compare::kNe);
    Value at = b.add_scalar(b.select(odd, b.subtract(width, extra), extra), low);
    Value negative = b.compare(from_low, b.zeros_like(from_low), Compare::kLt);
    Value turned = b.xor_(odd, negative);
    return {at, b.select(turned, b.negate(p.slope), p.slope)};
  }

  Position padded(const Position& p, size_t i) const {
    if (padding == Padding::kZeros) return p;
    return clipped(padding == Padding::kReflection ? reflected(p, i) : p, i);
  }

  void place(Value grid) {
    const size_t n = spatial();
    for (size_t i = 0; i < n; ++i) {
      const auto which = static_cast<int64_t>(n - 1 - i);
      Value x = b.squeeze_dim(b.slice_dim(grid, -1 + grid.rank(), which, which + 1), -1);
      Position p = unnormalised(x, i);
      positions.push_back(interpolation == Interpolation::kCubic ? p : padded(p, i));
    }
  }

  // Whole-numbered positions (in the input's type) inside the input.
  Value inside(const Values& at) const {
    Value all;
    for (size_t i = 0; i < at.size(); ++i) {
      Value high = b.full_like(at[i], static_cast<double>(size(i) - 1));
      Value in = b.and_(b.compare(at[i], b.zeros_like(at[i]), Compare::kGe),
                        b.compare(at[i], high, Compare::kLe));
      all = i == 0 ? in : b.and_(all, in);
    }
    return all;
  }

  Values indices(const Values& at) const {
    Values out;
    for (size_t i = 0; i < at.size(); ++i) {
      Value high = b.full_like(at[i], static_cast<double>(size(i) - 1));
      out.push_back(b.convert(b.minimum(high, b.maximum(at[i], b.zeros_like(at[i]))), DType::kS32));
    }
    return out;
  }

  // A per-point value [n, ...] over the channels: [n, c, ...].
  Value over_channels(Value x) const {
    IntList dims = Lowering::all_dims(x.rank());
    for (size_t i = 1; i < dims.size(); ++i) ++dims[i];
    return b.broadcast_in_dim(x, with_channels(x.shape()), dims);
  }

  // Input at whole-numbered positions, zero outside.
  Value sample(const Values& at) const {
    Shape column = at[0].shape();
    column.push_back(1);
    Values columns = {b.reshape(b.iota_like(at[0], DType::kS32, 0), column)};
    for (const Value& i : indices(at)) columns.push_back(b.reshape(i, column));
    stablehlo::GatherDims dims;
    dims.offset_dims = {1};
    dims.collapsed_slice_dims = {0};
    dims.start_index_map = {0};
    for (size_t i = 0; i < spatial(); ++i) {
      dims.collapsed_slice_dims.push_back(static_cast<int64_t>(i) + 2);
      dims.start_index_map.push_back(static_cast<int64_t>(i) + 2);
    }
    dims.index_vector_dim = static_cast<int64_t>(column.size()) - 1;
    dims.slice_sizes = Shape(static_cast<size_t>(input.rank()), 1);
    dims.slice_sizes[1] = input.dim(1);
    Value found =
        b.gather(input, b.concatenate(columns, static_cast<int64_t>(column.size()) - 1), dims);
    return b.select(over_channels(inside(at)), found, b.zeros_like(found));
  }
};

// The points that each sample is a weighted sum of: [n, out..., points]. Slopes are the weights'
// derivatives along each dimension; none where the weight is constant.
struct Taps {
  Values at;
  Value weight;
  Values slopes;
};

// The choices along one dimension, [n, out...] each.
struct Choices {
  Values at, weights, derivatives;
};

Value product_except(Lowering& b, const Values& factors, size_t skipped) {
  Value out;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (i != skipped) out = out.defined() ? b.multiply(out, factors[i]) : factors[i];
  }
  return out;
}

// All combinations of one choice per dimension.
Taps combined(Lowering& b, const std::vector<Choices>& choices) {
  const size_t n = choices.size();
  const Shape& points = choices[0].at[0].shape();
  Shape grid = points;
  for (const Choices& c : choices) grid.push_back(static_cast<int64_t>(c.at.size()));
  Shape flat = points;
  flat.push_back(1);
  for (const Choices& c : choices) flat.back() *= static_cast<int64_t>(c.at.size());
  auto spread = [&](const Values& xs, size_t i) {
    Values columns;
    for (const Value& x : xs) columns.push_back(b.unsqueeze(x, x.rank()));
    IntList dims = Lowering::all_dims(static_cast<int64_t>(points.size()) + 1);
    dims.back() += static_cast<int64_t>(i);
    return b.reshape(b.broadcast_in_dim(b.concatenate(columns, columns[0].rank() - 1), grid, dims),
                     flat);
  };
  Taps taps;
  Values weights, derivatives;
  for (size_t i = 0; i < n; ++i) {
    taps.at.push_back(spread(choices[i].at, i));
    weights.push_back(spread(choices[i].weights, i));
    derivatives.push_back(spread(choices[i].derivatives, i));
  }
  taps.weight = product_except(b, weights, n);
  for (size_t i = 0; i < n; ++i) {
    Value rest = product_except(b, weights, i);
    taps.slopes.push_back(rest.defined() ? b.multiply(derivatives[i], rest) : derivatives[i]);
  }
  return taps;
}

Taps linear_taps(const Sampler& s) {
  Lowering& b = s.b;
  std::vector<Choices> choices;
  for (const Position& p : s.positions) {
    Value low = b.floor(p.at);
    Value fraction = b.subtract(p.at, low);
    Value one = b.full_like(low, 1);
    choices.push_back(
        {{low, b.add(low, one)}, {b.subtract(one, fraction), fraction}, {b.negate(one), one}});
  }
  return combined(b, choices);
}

// Arithmetic on values, for formulas shared with plain numbers.
struct Expr {
  Lowering* b;
  Value v;
};
Expr operator+(Expr x, double c) { return {x.b, x.b->add_scalar(x.v, c)}; }
Expr operator-(Expr x, double c) { return {x.b, x.b->add_scalar(x.v, -c)}; }
Expr operator*(double c, Expr x) { return {x.b, x.b->mul_scalar(x.v, c)}; }
Expr operator*(Expr x, Expr y) { return {x.b, x.b->multiply(x.v, y.v)}; }

constexpr double kCubicA = -0.75;

Expr inner(Expr x) { return ((kCubicA + 2) * x - (kCubicA + 3)) * x * x + 1; }
Expr outer(Expr x) { return ((kCubicA * x - 5 * kCubicA) * x + 8 * kCubicA) * x - 4 * kCubicA; }
Expr inner_slope(Expr x) { return (3 * (kCubicA + 2) * x - 2 * (kCubicA + 3)) * x; }
Expr outer_slope(Expr x) { return (3 * kCubicA * x - 10 * kCubicA) * x + 8 * kCubicA; }

Taps cubic_taps(const Sampler& s) {
  Lowering& b = s.b;
  std::vector<Choices> choices;
  for (size_t i = 0; i < s.spatial(); ++i) {
    Value x = s.positions[i].at;
    Value low = b.floor(x);
    const Expr t{&b, b.subtract(x, low)};
    const Expr rest = -1 * t + 1;
    Values at;
    for (int k = -1; k <= 2; ++k) {
      Value whole = b.add_scalar(low, k);
      at.push_back(s.padded({whole, b.full_like(whole, 1)}, i).at);
    }
    choices.push_back({at,
                       {outer(t + 1).v, inner(t).v, inner(rest).v, outer(rest + 1).v},
                       {outer_slope(t + 1).v, inner_slope(t).v, (-1 * inner_slope(rest)).v,
                        (-1 * outer_slope(rest + 1)).v}});
  }
  return combined(b, choices);
}

Taps taps_of(const Sampler& s) {
  if (s.interpolation == Interpolation::kLinear) return linear_taps(s);
  if (s.interpolation == Interpolation::kCubic) return cubic_taps(s);
  Taps taps;
  for (const Position& p : s.positions)
    taps.at.push_back(s.b.unsqueeze(s.b.round_even(p.at), p.at.rank()));
  taps.weight = s.b.full_like(taps.at[0], 1);
  return taps;
}

Sampler sampler(Lowering& b, Value input, Value grid, int64_t interpolation, int64_t padding,
                bool align_corners) {
  Sampler s{b, input, static_cast<Interpolation>(interpolation), static_cast<Padding>(padding),
            align_corners};
  s.place(b.convert(grid, input.dtype()));
  return s;
}

Value grid_sampler(Lowering& b, Value input, Value grid, int64_t interpolation, int64_t padding,
                   bool align_corners) {
  const Sampler s = sampler(b, input, grid, interpolation, padding, align_corners);
  if (numel(s.result_shape()) == 0) return b.constant(input.dtype(), 0, s.result_shape());
  const Taps taps = taps_of(s);
  Value found = s.sample(taps.at);
  if (s.interpolation == Interpolation::kNearest) return b.reshape(found, s.result_shape());
  return b.sum(b.multiply(found, s.over_channels(taps.weight)), IntList{found.rank() - 1});
}

// Flat positions in a plane of the input, clamped into it.
Value flat_index(const Sampler& s, const Values& at) {
  const Values indices = s.indices(at);
  Value flat = indices[0];
  for (size_t i = 1; i < at.size(); ++i) {
    flat = s.b.add(s.b.multiply(flat, s.b.constant_int(DType::kS32, s.size(i), flat.shape())),
                   indices[i]);
  }
  return flat;
}

// grad, [n, c, out...], once per tap.
Value per_tap(const Sampler& s, Value grad, const Taps& taps) {
  return s.b.broadcast_in_dim(grad, s.with_channels(taps.weight.shape()),
                              Lowering::all_dims(grad.rank()));
}

Value input_gradient(const Sampler& s, Value grad, const Taps& taps) {
  Lowering& b = s.b;
  Value share = b.multiply(per_tap(s, grad, taps), s.over_channels(taps.weight));
  share = b.select(s.over_channels(s.inside(taps.at)), share, b.zeros_like(share));
  return add_at(b, share, s.over_channels(flat_index(s, taps.at)), s.input.shape(),
                static_cast<int64_t>(s.spatial()));
}

Value grid_gradient(const Sampler& s, Value grad, const Taps& taps, const Shape& grid_shape) {
  Lowering& b = s.b;
  if (s.interpolation == Interpolation::kNearest) return b.constant(grad.dtype(), 0, grid_shape);
  Value dot = b.sum(b.multiply(s.sample(taps.at), per_tap(s, grad, taps)), IntList{1});
  Values columns;
  for (size_t i = s.spatial(); i-- > 0;) {
    Value total = b.sum(b.multiply(dot, taps.slopes[i]), IntList{dot.rank() - 1});
    columns.push_back(b.unsqueeze(b.multiply(total, s.positions[i].slope), total.rank()));
  }
  return b.concatenate(columns, columns[0].rank() - 1);
}

Results grid_sampler_backward(Lowering& b, Value grad, Value input, Value grid,
                              int64_t interpolation, int64_t padding, bool align_corners,
                              IntList output_mask) {
  Results out(2);
  if (grad.numel() == 0) {
    if (output_mask[0] != 0) out[0] = b.zeros_like(input);
    if (output_mask[1] != 0) out[1] = b.zeros_like(grid);
    return out;
  }
  const Sampler s = sampler(b, input, grid, interpolation, padding, align_corners);
  const Taps taps = taps_of(s);
  if (output_mask[0] != 0) out[0] = input_gradient(s, grad, taps);
  if (output_mask[1] != 0) out[1] = grid_gradient(s, grad, taps, grid.shape());
  return out;
}

Results grid_sampler_fallback_backward(Lowering& b, Value grad, Value input, Value grid,
                                       int64_t interpolation, int64_t padding, bool align_corners) {
  return grid_sampler_backward(b, grad, input, grid, interpolation, padding, align_corners, {1, 1});
}

}  // namespace

void register_grid_sampler(OperatorTable& table) {
  const RuleOptions options{.opmath = true};
  table.add("grid_sampler_2d", grid_sampler, options);
  table.add("grid_sampler_3d", grid_sampler, options);
  table.add("_grid_sampler_2d_cpu_fallback", grid_sampler, options);
  table.add("_grid_sampler_2d_cpu_fallback_backward", grid_sampler_fallback_backward, options);
  table.add("grid_sampler_2d_backward", grid_sampler_backward, options);
  table.add("grid_sampler_3d_backward", grid_sampler_backward, options);
}

}  // namespace torch_tpu::lowering
