#include <array>

#include "lowering/operator_table.h"
#include "lowering/resample.h"
#include "lowering/window.h"

namespace torch_tpu::lowering {

namespace {

// Input [n, c, in...], grid [n, out..., spatial] in [-1, 1] with the last dimension's coordinate first
// (Jaderberg et al., "Spatial transformer networks", 2015).

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
  const Shape& grid_shape() const { return positions[0].at.shape(); }
  Shape sample_shape() const {
    Shape shape = grid_shape();
    shape.insert(shape.begin() + 1, input.dim(1));
    return shape;
  }

  // [-1, 1] to pixels.
  Position unnormalised(Value x, size_t i) const {
    const auto n = static_cast<double>(size(i));
    if (align_corners) {
      const double half = (n - 1) / 2;
      return {b.mul_scalar(b.mul_scalar(b.add_scalar(x, 1), 0.5), n - 1), b.full_like(x, half)};
    }
    return {b.mul_scalar(b.add_scalar(b.mul_scalar(b.add_scalar(x, 1), n), -1), 0.5), b.full_like(x, n / 2)};
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
    Value odd = b.compare(b.remainder(flips, b.full_like(flips, 2)), b.zeros_like(flips), Compare::kNe);
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
      Value in = b.and_(b.compare(at[i], b.zeros_like(at[i]), Compare::kGe), b.compare(at[i], high, Compare::kLe));
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

  // A per-point value [n, out...] over the channels: [n, c, out...].
  Value over_channels(Value x) const {
    IntList dims = Lowering::all_dims(x.rank());
    for (size_t i = 1; i < dims.size(); ++i) ++dims[i];
    return b.broadcast_in_dim(x, sample_shape(), dims);
  }

  // Input at whole-numbered positions, zero outside.
  Value sample(const Values& at) const {
    Shape column = grid_shape();
    column.push_back(1);
    Values columns = {b.reshape(b.iota({DType::kS32, grid_shape()}, 0), column)};
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
    Value found = b.gather(input, b.concatenate(columns, static_cast<int64_t>(column.size()) - 1), dims);
    return b.select(over_channels(inside(at)), found, b.zeros_like(found));
  }
};

// One point that a sample is a weighted sum of; slopes are the weight's derivatives along each
// dimension, empty where the weight is constant.
struct Tap {
  Values at;
  Value weight;
  Values slopes;
};

Value product_except(Lowering& b, const Values& factors, size_t skipped) {
  Value out;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (i != skipped) out = out.defined() ? b.multiply(out, factors[i]) : factors[i];
  }
  return out;
}

// Tap of one choice of (position, weight, derivative) per dimension.
Tap tap_of(Lowering& b, Values at, const Values& weights, const Values& derivatives) {
  Tap tap{std::move(at), product_except(b, weights, weights.size()), {}};
  for (size_t i = 0; i < weights.size(); ++i) {
    Value rest = product_except(b, weights, i);
    tap.slopes.push_back(rest.defined() ? b.multiply(derivatives[i], rest) : derivatives[i]);
  }
  return tap;
}

std::vector<Tap> linear_taps(const Sampler& s) {
  Lowering& b = s.b;
  const size_t n = s.spatial();
  std::vector<Tap> taps;
  for (size_t corner = 0; corner < (size_t{1} << n); ++corner) {
    Values at, weights, derivatives;
    for (size_t i = 0; i < n; ++i) {
      Value x = s.positions[i].at;
      Value low = b.floor(x);
      Value fraction = b.subtract(x, low);
      const bool upper = ((corner >> (n - 1 - i)) & 1) != 0;
      at.push_back(upper ? b.add_scalar(low, 1) : low);
      weights.push_back(upper ? fraction : b.subtract(b.full_like(x, 1), fraction));
      derivatives.push_back(b.full_like(x, upper ? 1 : -1));
    }
    taps.push_back(tap_of(b, at, weights, derivatives));
  }
  return taps;
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

std::vector<Tap> cubic_taps(const Sampler& s) {
  Lowering& b = s.b;
  const size_t n = s.spatial();
  std::vector<std::array<Value, 4>> at(n), weights(n), derivatives(n);
  for (size_t i = 0; i < n; ++i) {
    Value x = s.positions[i].at;
    Value low = b.floor(x);
    const Expr t{&b, b.subtract(x, low)};
    const Expr rest = -1 * t + 1;
    weights[i] = {outer(t + 1).v, inner(t).v, inner(rest).v, outer(rest + 1).v};
    derivatives[i] = {outer_slope(t + 1).v, inner_slope(t).v, (-1 * inner_slope(rest)).v,
                      (-1 * outer_slope(rest + 1)).v};
    for (size_t k = 0; k < 4; ++k) {
      Value whole = b.add_scalar(low, static_cast<double>(k) - 1);
      at[i][k] = s.padded({whole, b.full_like(whole, 1)}, i).at;
    }
  }
  std::vector<Tap> taps;
  for (size_t y = 0; y < 4; ++y) {
    for (size_t x = 0; x < 4; ++x) {
      taps.push_back(tap_of(b, {at[0][y], at[1][x]}, {weights[0][y], weights[1][x]},
                            {derivatives[0][y], derivatives[1][x]}));
    }
  }
  return taps;
}

std::vector<Tap> taps_of(const Sampler& s) {
  if (s.interpolation == Interpolation::kLinear) return linear_taps(s);
  if (s.interpolation == Interpolation::kCubic) return cubic_taps(s);
  Tap tap;
  for (const Position& p : s.positions) tap.at.push_back(s.b.round_even(p.at));
  tap.weight = s.b.full_like(s.positions[0].at, 1);
  return {tap};
}

Sampler sampler(Lowering& b, Value input, Value grid, int64_t interpolation, int64_t padding, bool align_corners) {
  Sampler s{b, input, static_cast<Interpolation>(interpolation), static_cast<Padding>(padding), align_corners};
  s.place(b.convert(grid, input.dtype()));
  return s;
}

Value grid_sampler(Lowering& b, Value input, Value grid, int64_t interpolation, int64_t padding, bool align_corners) {
  const Sampler s = sampler(b, input, grid, interpolation, padding, align_corners);
  if (numel(s.sample_shape()) == 0) return b.constant(input.dtype(), 0, s.sample_shape());
  Value sum;
  for (const Tap& tap : taps_of(s)) {
    Value term = s.sample(tap.at);
    if (s.interpolation != Interpolation::kNearest) term = b.multiply(term, s.over_channels(tap.weight));
    sum = sum.defined() ? b.add(sum, term) : term;
  }
  return sum;
}

// Flat positions in a plane of the input, clamped into it.
Value flat_index(const Sampler& s, const Values& at) {
  Value flat;
  for (size_t i = 0; i < at.size(); ++i) {
    Value index = s.indices(at)[i];
    if (i == 0) {
      flat = index;
    } else {
      flat = s.b.add(s.b.multiply(flat, s.b.constant_int(DType::kS32, s.size(i), flat.shape())), index);
    }
  }
  return flat;
}

Value input_gradient(const Sampler& s, Value grad, const std::vector<Tap>& taps) {
  Lowering& b = s.b;
  const Shape rows = {grad.dim(0), grad.dim(1), grad.numel() / (grad.dim(0) * grad.dim(1))};
  Values updates, positions;
  for (const Tap& tap : taps) {
    Value share = b.multiply(grad, s.over_channels(tap.weight));
    share = b.select(s.over_channels(s.inside(tap.at)), share, b.zeros_like(share));
    updates.push_back(b.reshape(share, rows));
    positions.push_back(b.reshape(s.over_channels(flat_index(s, tap.at)), rows));
  }
  return add_at(b, b.concatenate(updates, 2), b.concatenate(positions, 2), s.input.shape(),
                static_cast<int64_t>(s.spatial()));
}

Value grid_gradient(const Sampler& s, Value grad, const std::vector<Tap>& taps, const Shape& grid_shape) {
  Lowering& b = s.b;
  const size_t n = s.spatial();
  if (s.interpolation == Interpolation::kNearest) return b.constant(grad.dtype(), 0, grid_shape);
  Values sums(n);
  for (const Tap& tap : taps) {
    Value dot = b.sum(b.multiply(s.sample(tap.at), grad), IntList{1});
    for (size_t i = 0; i < n; ++i) {
      Value term = b.multiply(dot, tap.slopes[i]);
      sums[i] = sums[i].defined() ? b.add(sums[i], term) : term;
    }
  }
  Shape column = s.grid_shape();
  column.push_back(1);
  Values columns;
  for (size_t i = n; i-- > 0;) columns.push_back(b.reshape(b.multiply(sums[i], s.positions[i].slope), column));
  return b.concatenate(columns, static_cast<int64_t>(column.size()) - 1);
}

Results grid_sampler_backward(Lowering& b, Value grad, Value input, Value grid, int64_t interpolation, int64_t padding,
                              bool align_corners, IntList output_mask) {
  Results out(2);
  if (grad.numel() == 0) {
    if (output_mask[0] != 0) out[0] = b.zeros_like(input);
    if (output_mask[1] != 0) out[1] = b.zeros_like(grid);
    return out;
  }
  const Sampler s = sampler(b, input, grid, interpolation, padding, align_corners);
  const std::vector<Tap> taps = taps_of(s);
  if (output_mask[0] != 0) out[0] = input_gradient(s, grad, taps);
  if (output_mask[1] != 0) out[1] = grid_gradient(s, grad, taps, grid.shape());
  return out;
}

Results grid_sampler_fallback_backward(Lowering& b, Value grad, Value input, Value grid, int64_t interpolation,
                                       int64_t padding, bool align_corners) {
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
