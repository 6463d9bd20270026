#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "lowering/operator_table.h"
#include "lowering/resample.h"
#include "lowering/window.h"

namespace torch_tpu::lowering {

namespace {

using Scale = std::optional<double>;

enum class Kind { kNearest, kNearestExact, kLinear, kCubic, kLinearAa, kCubicAa, kLanczosAa };

// One dimension of a resampling. Positions and weights are computed in the type PyTorch computes
// them in, so that they fall on the same side of every rounding.
struct Axis {
  int64_t in, out;
  bool align_corners;
  Scale scale;  // out / in as the caller gave it
};

template <typename T>
T ratio(const Axis& a) {
  if (a.scale && *a.scale > 0) return static_cast<T>(1.0 / *a.scale);
  return static_cast<T>(a.in) / static_cast<T>(a.out);
}

template <typename T>
T step(const Axis& a) {
  if (!a.align_corners) return ratio<T>(a);
  return a.out > 1 ? static_cast<T>(a.in - 1) / static_cast<T>(a.out - 1) : T{0};
}

template <typename T>
T source(const Axis& a, int64_t o, bool cubic) {
  const T scale = step<T>(a);
  if (a.align_corners) return scale * static_cast<T>(o);
  const T at = scale * (static_cast<T>(o) + T{0.5}) - T{0.5};
  return !cubic && at < 0 ? T{0} : at;
}

IntList nearest(const Axis& a, bool exact) {
  IntList index;
  const auto scale = ratio<float>(a);
  for (int64_t o = 0; o < a.out; ++o) {
    const float at = static_cast<float>(o) + (exact ? 0.5F : 0.0F);
    int64_t i = std::min(static_cast<int64_t>(std::floor(at * scale)), a.in - 1);
    if (!exact && a.out == a.in) i = o;
    if (!exact && a.out == 2 * a.in) i = o / 2;
    index.push_back(i);
  }
  return index;
}

// Adds a row whose taps start at `first`, which may lie outside: those fall on the border element.
template <typename T>
void add_row(Band& band, int64_t first, std::span<const T> taps) {
  const auto last = first + static_cast<int64_t>(taps.size()) - 1;
  const int64_t begin = std::clamp<int64_t>(first, 0, band.size - 1);
  const int64_t end = std::clamp<int64_t>(last, 0, band.size - 1);
  std::vector<double> row(static_cast<size_t>(end - begin + 1), 0);
  for (size_t t = 0; t < taps.size(); ++t) {
    const int64_t at = std::clamp<int64_t>(first + static_cast<int64_t>(t), 0, band.size - 1);
    row[static_cast<size_t>(at - begin)] += static_cast<double>(taps[t]);
  }
  band.start.push_back(begin);
  band.weights.push_back(std::move(row));
}

template <typename T>
Band linear(const Axis& a) {
  Band band{a.in, {}, {}};
  for (int64_t o = 0; o < a.out; ++o) {
    const T at = a.in == a.out ? static_cast<T>(o) : source<T>(a, o, false);
    const int64_t i = std::min(static_cast<int64_t>(at), a.in - 1);
    const T l = std::clamp(at - static_cast<T>(i), T{0}, T{1});
    const std::array<T, 2> taps = {T{1} - l, l};
    add_row<T>(band, i, taps);
  }
  return band;
}

template <typename T>
Band cubic(const Axis& a) {
  constexpr T kA{-0.75};
  Band band{a.in, {}, {}};
  for (int64_t o = 0; o < a.out; ++o) {
    const T at = source<T>(a, o, true);
    const int64_t i = std::min(static_cast<int64_t>(std::floor(at)), a.in - 1);
    const T t = std::clamp(at - static_cast<T>(i), T{0}, T{1});
    const std::array<T, 4> taps = {cubic_outer(t + 1, kA), cubic_inner(t, kA),
                                   cubic_inner(1 - t, kA), cubic_outer(2 - t, kA)};
    add_row<T>(band, i - 1, taps);
  }
  return band;
}

template <typename T>
T antialias_filter(Kind kind, T x) {
  x = std::abs(x);
  if (kind == Kind::kLinearAa) return x < 1 ? 1 - x : T{0};
  if (kind == Kind::kCubicAa) {
    constexpr T kA{-0.5};
    return x < 1 ? cubic_inner(x, kA) : x < 2 ? cubic_outer(x, kA) : T{0};
  }
  auto sinc = [](T v) {
    v *= std::numbers::pi_v<T>;
    return v == 0 ? T{1} : std::sin(v) / v;
  };
  return x < 3 ? sinc(x) * sinc(x / 3) : T{0};
}

// A filter as wide as the step between output pixels, as in Pillow's resize.
template <typename T>
Band antialiased(Kind kind, const Axis& a) {
  const T scale = step<T>(a);
  const T radius = kind == Kind::kLinearAa ? 1 : kind == Kind::kCubicAa ? 2 : 3;
  const T support = scale >= 1 ? radius * scale : radius;
  const T inverse = scale >= 1 ? 1 / scale : T{1};
  const auto most = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  Band band{a.in, {}, {}};
  for (int64_t o = 0; o < a.out; ++o) {
    const T centre = scale * (static_cast<T>(o) + T{0.5});
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + T{0.5}), 0);
    const int64_t count = std::clamp<int64_t>(
        std::min(static_cast<int64_t>(centre + support + T{0.5}), a.in) - first, 0, most);
    std::vector<T> taps;
    T total = 0;
    for (int64_t j = 0; j < count; ++j) {
      taps.push_back(
          antialias_filter(kind, (static_cast<T>(j + first) - centre + T{0.5}) * inverse));
      total += taps.back();
    }
    std::vector<double> row;
    for (T w : taps) row.push_back(static_cast<double>(total != 0 ? w / total : w));
    band.start.push_back(std::min(first, a.in - 1));
    band.weights.push_back(std::move(row));
  }
  return band;
}

template <typename T>
Band band_of(Kind kind, const Axis& a) {
  if (kind == Kind::kLinear) return linear<T>(a);
  if (kind == Kind::kCubic) return cubic<T>(a);
  if (kind != Kind::kNearest && kind != Kind::kNearestExact) return antialiased<T>(kind, a);
  Band band{a.in, nearest(a, kind == Kind::kNearestExact), {}};
  band.weights.assign(band.start.size(), {1.0});
  return band;
}

Band band_of(Kind kind, DType type, const Axis& a) {
  return type == DType::kF64 ? band_of<double>(kind, a) : band_of<float>(kind, a);
}

// uint8 images are rounded after each dimension.
Value rounded_band(Lowering& b, Value x, int64_t dim, const Band& band) {
  Value y = apply_band(b, b.convert(x, DType::kF32), dim, band);
  y = b.floor(b.add_scalar(y, 0.5));
  return b.convert(
      b.clamp(b.scalar(DType::kF32, Scalar::of(0.0)), y, b.scalar(DType::kF32, Scalar::of(255.0))),
      x.dtype());
}

Value resample(Lowering& b, Kind kind, Value x, const IntList& size, bool align_corners,
               std::initializer_list<Scale> scales) {
  for (size_t i = size.size(); i-- > 0;) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const Axis axis{x.dim(dim), size[i], align_corners, scales.begin()[i]};
    if (kind == Kind::kNearest || kind == Kind::kNearestExact) {
      x = take(b, x, dim, nearest(axis, kind == Kind::kNearestExact));
    } else if (is_int(x.dtype())) {
      x = rounded_band(b, x, dim, band_of(kind, DType::kF32, axis));
    } else {
      x = apply_band(b, x, dim, band_of(kind, x.dtype(), axis));
    }
  }
  return x;
}

Value resample_backward(Lowering& b, Kind kind, Value grad, const IntList& input_size,
                        bool align_corners, std::initializer_list<Scale> scales) {
  for (size_t i = 0; i < scales.size(); ++i) {
    const auto dim = static_cast<int64_t>(i) + 2;
    const Axis axis{input_size[i + 2], grad.dim(dim), align_corners, scales.begin()[i]};
    grad = apply_band(b, grad, dim, transposed(band_of(kind, grad.dtype(), axis)));
  }
  return grad;
}

template <Kind K, typename... S>
Value upsample(Lowering& b, Value self, IntList output_size, bool align_corners, S... scales) {
  return resample(b, K, self, output_size, align_corners, {scales...});
}

template <Kind K, typename... S>
Value upsample_backward(Lowering& b, Value grad, IntList output_size, IntList input_size,
                        bool align_corners, S... scales) {
  static_cast<void>(output_size);
  return resample_backward(b, K, grad, input_size, align_corners, {scales...});
}

template <Kind K, typename... S>
Value upsample_nearest(Lowering& b, Value self, IntList output_size, S... scales) {
  return resample(b, K, self, output_size, false, {scales...});
}

template <Kind K, typename... S>
Value upsample_nearest_backward(Lowering& b, Value grad, IntList output_size, IntList input_size,
                                S... scales) {
  static_cast<void>(output_size);
  return resample_backward(b, K, grad, input_size, false, {scales...});
}

}  // namespace

void register_upsample(OperatorTable& table) {
  const RuleOptions sums{.opmath = true};
  table.add("upsample_nearest1d", upsample_nearest<Kind::kNearest, Scale>);
  table.add("upsample_nearest2d", upsample_nearest<Kind::kNearest, Scale, Scale>);
  table.add("upsample_nearest3d", upsample_nearest<Kind::kNearest, Scale, Scale, Scale>);
  table.add("_upsample_nearest_exact1d", upsample_nearest<Kind::kNearestExact, Scale>);
  table.add("_upsample_nearest_exact2d", upsample_nearest<Kind::kNearestExact, Scale, Scale>);
  table.add("_upsample_nearest_exact3d",
            upsample_nearest<Kind::kNearestExact, Scale, Scale, Scale>);
  table.add("upsample_linear1d", upsample<Kind::kLinear, Scale>, sums);
  table.add("upsample_bilinear2d", upsample<Kind::kLinear, Scale, Scale>, sums);
  table.add("upsample_trilinear3d", upsample<Kind::kLinear, Scale, Scale, Scale>, sums);
  table.add("upsample_bicubic2d", upsample<Kind::kCubic, Scale, Scale>, sums);
  table.add("_upsample_bilinear2d_aa", upsample<Kind::kLinearAa, Scale, Scale>, sums);
  table.add("_upsample_bicubic2d_aa", upsample<Kind::kCubicAa, Scale, Scale>, sums);
  table.add("_upsample_lanczos2d_aa", upsample<Kind::kLanczosAa, Scale, Scale>, sums);

  table.add("upsample_nearest1d_backward", upsample_nearest_backward<Kind::kNearest, Scale>, sums);
  table.add("upsample_nearest2d_backward", upsample_nearest_backward<Kind::kNearest, Scale, Scale>,
            sums);
  table.add("upsample_nearest3d_backward",
            upsample_nearest_backward<Kind::kNearest, Scale, Scale, Scale>, sums);
  table.add("_upsample_nearest_exact1d_backward",
            upsample_nearest_backward<Kind::kNearestExact, Scale>, sums);
  table.add("_upsample_nearest_exact2d_backward",
            upsample_nearest_backward<Kind::kNearestExact, Scale, Scale>, sums);
  table.add("_upsample_nearest_exact3d_backward",
            upsample_nearest_backward<Kind::kNearestExact, Scale, Scale, Scale>, sums);
  table.add("upsample_linear1d_backward", upsample_backward<Kind::kLinear, Scale>, sums);
  table.add("upsample_bilinear2d_backward", upsample_backward<Kind::kLinear, Scale, Scale>, sums);
  table.add("upsample_trilinear3d_backward", upsample_backward<Kind::kLinear, Scale, Scale, Scale>,
            sums);
  table.add("upsample_bicubic2d_backward", upsample_backward<Kind::kCubic, Scale, Scale>, sums);
  table.add("_upsample_bilinear2d_aa_backward", upsample_backward<Kind::kLinearAa, Scale, Scale>,
            sums);
  table.add("_upsample_bicubic2d_aa_backward", upsample_backward<Kind::kCubicAa, Scale, Scale>,
            sums);
  table.add("_upsample_lanczos2d_aa_backward", upsample_backward<Kind::kLanczosAa, Scale, Scale>,
            sums);
}

}  // namespace torch_tpu::lowering
