#include "lowering/view_algebra.h"

#include <algorithm>
#include <numeric>

namespace torch_tpu::lowering {
namespace {

// A flat view of the base in elements of `dtype`.
Value reinterpret(Lowering& b, Value base, DType dtype) {
  Value flat = b.flatten(base);
  const DType from = flat.dtype();
  if (from == dtype) return flat;
  if (is_bool(from)) return reinterpret(b, b.convert(flat, DType::kU8), dtype);
  if (is_bool(dtype)) return b.convert(reinterpret(b, flat, DType::kU8), DType::kPred);
  if (is_complex(from)) {
    Value parts[] = {b.unsqueeze(b.real(flat), 1), b.unsqueeze(b.imag(flat), 1)};
    return reinterpret(b, b.concatenate(parts, 1), dtype);
  }
  if (is_complex(dtype)) {
    Value pairs = reinterpret(b, flat, real_of(dtype));
    const int64_t n = pairs.numel() / 2;
    pairs = b.reshape(b.slice_dim(pairs, 0, 0, n * 2), {n, 2});
    return b.complex(b.flatten(b.slice_dim(pairs, 1, 0, 1)),
                     b.flatten(b.slice_dim(pairs, 1, 1, 2)));
  }
  const int64_t narrow = byte_size(from);
  const int64_t wide = byte_size(dtype);
  if (narrow < wide) {
    const int64_t k = wide / narrow;
    const int64_t n = flat.numel() / k;
    flat = b.reshape(b.slice_dim(flat, 0, 0, n * k), {n, k});
  }
  return b.flatten(b.bitcast_convert(flat, dtype));
}

// One dimension of a view: `size` elements `stride` apart; `dim` is its place in the view.
struct Axis {
  int64_t size;
  int64_t stride;
  int64_t dim;
};

// A view as a box of a reshaped storage: dims of the storage, outermost first, with the box's start
// and extent in each. `axes` name the view's dimensions that the box's dimensions stand for.
struct Box {
  Shape shape;
  IntList start;
  IntList extent;
  std::vector<Axis> axes;
  bool trailing = false;  // an innermost dimension of extent one that stands for no axis
};

std::vector<Axis> strided_axes(const View& view) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] != 1 && view.strides[i] != 0) {
      axes.push_back({view.sizes[i], view.strides[i], static_cast<int64_t>(i)});
    }
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& x, const Axis& y) { return x.stride > y.stride; });
  return axes;
}

// Neighbours that together run evenly through memory become one axis.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> out;
  for (const Axis& a : axes) {
    if (!out.empty() && out.back().stride == a.size * a.stride) {
      out.back().size *= a.size;
      out.back().stride = a.stride;
    } else {
      out.push_back(a);
    }
  }
  return out;
}

// The box, when strides divide one another and the view doesn't wrap around an inner dimension.
std::optional<Box> box_of(const View& view, int64_t elements) {
  Box box;
  box.axes = merged(strided_axes(view));
  int64_t rest = view.offset;
  int64_t outer = elements;  // elements spanned by one step of the dimension outside
  for (const Axis& a : box.axes) {
    if (outer % a.stride != 0) return std::nullopt;
    const int64_t n = outer / a.stride;
    const int64_t start = rest / a.stride;
    if (start + a.size > n) return std::nullopt;
    box.shape.push_back(n);
    box.start.push_back(start);
    box.extent.push_back(a.size);
    rest %= a.stride;
    outer = a.stride;
  }
  if (outer != 1) {
    if (rest >= outer) return std::nullopt;
    box.shape.push_back(outer);
    box.start.push_back(rest);
    box.extent.push_back(1);
    box.trailing = true;
  } else if (rest != 0) {
    return std::nullopt;
  }
  return box;
}

// From the box's value (one dimension per merged axis, outermost first) to the view's sizes, and
// back.
Value unmerge(Lowering& b, Value value, const View& view) {
  const std::vector<Axis> axes = strided_axes(view);
  Shape shape;
  for (const Axis& a : axes) shape.push_back(a.size);
  value = b.reshape(value, shape);
  // Axes are in memory order: bring them into the view's order, then put the broadcast dimensions
  // in.
  std::vector<size_t> order(axes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t x, size_t y) { return axes[x].dim < axes[y].dim; });
  IntList permutation;
  IntList dims;
  for (size_t i : order) {
    permutation.push_back(static_cast<int64_t>(i));
    dims.push_back(axes[i].dim);
  }
  value = b.transpose(value, permutation);
  bool dense = true;  // only ones to insert
  for (size_t i = 0; i < view.sizes.size(); ++i)
    dense &= view.sizes[i] == 1 || view.strides[i] != 0;
  return dense ? b.reshape(value, view.sizes) : b.broadcast_in_dim(value, view.sizes, dims);
}

// The view's value in memory order, one dimension per axis; broadcast dimensions keep element 0.
Value to_memory_order(Lowering& b, Value value, const View& view) {
  const std::vector<Axis> axes = strided_axes(view);
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] != 1 && view.strides[i] == 0)
      value = b.slice_dim(value, static_cast<int64_t>(i), 0, 1);
  }
  IntList permutation;
  for (const Axis& a : axes) permutation.push_back(a.dim);
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1 || view.strides[i] == 0) permutation.push_back(static_cast<int64_t>(i));
  }
  value = b.transpose(value, permutation);
  Shape shape;
  for (const Axis& a : axes) shape.push_back(a.size);
  return b.reshape(value, shape);
}

// Position in the flat storage of every element of the view.
Value positions(Lowering& b, const View& view) {
  const DType index = DType::kS64;
  Value at = b.constant_int(index, view.offset, view.sizes);
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] == 1 || view.strides[i] == 0) continue;
    Value step = b.iota({index, view.sizes}, static_cast<int64_t>(i));
    at = b.add(at, b.multiply(step, b.constant_int(index, view.strides[i], view.sizes)));
  }
  return at;
}

Value read_by_gather(Lowering& b, Value flat, const View& view) {
  stablehlo::GatherDims dims;
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = static_cast<int64_t>(view.sizes.size());
  dims.slice_sizes = {1};
  return b.gather(flat, positions(b, view), dims);
}

Value write_by_scatter(Lowering& b, Value flat, const View& view, Value value) {
  stablehlo::ScatterDims dims;
  dims.inserted_window_dims = {0};
  dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = static_cast<int64_t>(view.sizes.size());
  return b.scatter(flat, positions(b, view), value, dims, Combiner::kOverwrite);
}

bool is_empty(const View& view) { return numel(view.sizes) == 0; }

// Elements from the view's first to its last, both included.
int64_t span_of(const View& view) {
  int64_t last = 0;
  for (size_t i = 0; i < view.sizes.size(); ++i) last += (view.sizes[i] - 1) * view.strides[i];
  return last + 1;
}

// Padding the storage at its end (reads only) can make the strides fit: windows at the end of a
// storage, diagonals, steps that don't divide the size.
std::optional<std::pair<Box, View>> padded_box(const View& view, int64_t& elements, int64_t& drop) {
  View shifted = view;
  const std::vector<Axis> axes = merged(strided_axes(view));
  if (axes.empty()) return std::nullopt;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    if (axes[i].stride % axes[i + 1].stride != 0 ||
        axes[i + 1].size * axes[i + 1].stride > axes[i].stride) {
      return std::nullopt;
    }
  }
  drop = view.offset;
  shifted.offset = 0;
  elements = axes[0].size * axes[0].stride;
  auto box = box_of(shifted, elements);
  if (!box) return std::nullopt;
  return std::make_pair(*box, shifted);
}

}  // namespace

Shape physical_shape(const Shape& sizes, const Shape& strides) {
  std::vector<Axis> axes;
  for (size_t i = 0; i < sizes.size(); ++i)
    axes.push_back({sizes[i], sizes[i] == 1 ? -1 : strides[i], static_cast<int64_t>(i)});
  std::vector<Axis> moving;
  for (const Axis& a : axes) {
    if (a.size != 1) moving.push_back(a);
  }
  std::stable_sort(moving.begin(), moving.end(),
                   [](const Axis& x, const Axis& y) { return x.stride > y.stride; });
  Shape out;
  size_t next = 0;
  for (const Axis& a : axes) out.push_back(a.size == 1 ? 1 : moving[next++].size);
  return out;
}

bool covers_densely(const View& view, int64_t storage_elements) {
  if (view.offset != 0 || numel(view.sizes) != storage_elements) return false;
  if (storage_elements == 0) return true;
  std::vector<Axis> axes;
  for (size_t i = 0; i < view.sizes.size(); ++i) {
    if (view.sizes[i] != 1)
      axes.push_back({view.sizes[i], view.strides[i], static_cast<int64_t>(i)});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& x, const Axis& y) { return x.stride > y.stride; });
  int64_t expected = 1;
  for (auto it = axes.rbegin(); it != axes.rend(); ++it) {
    if (it->stride != expected) return false;
    expected *= it->size;
  }
  return true;
}

Value read_view(Lowering& b, Value base, const View& view) {
  if (is_empty(view)) return b.constant(view.dtype, 0, view.sizes);
  // A base that is already the dense tensor itself needs no detour through the flat form.
  if (base.dtype() == view.dtype && covers_densely(view, base.numel()))
    return unmerge(b, b.flatten(base), view);
  Value flat = reinterpret(b, base, view.dtype);
  if (auto box = box_of(view, flat.numel())) {
    Value x = b.reshape(flat, box->shape);
    IntList limit;
    for (size_t i = 0; i < box->start.size(); ++i) limit.push_back(box->start[i] + box->extent[i]);
    return unmerge(b, b.flatten(b.slice(x, box->start, limit)), view);
  }
  int64_t elements = 0;
  int64_t drop = 0;
  if (auto padded = padded_box(view, elements, drop)) {
    const int64_t low[] = {-drop};
    const int64_t high[] = {elements + drop - flat.numel()};
    Value x = b.pad(flat, b.constant(view.dtype, 0), low, high);
    const Box& box = padded->first;
    IntList limit;
    for (size_t i = 0; i < box.start.size(); ++i) limit.push_back(box.start[i] + box.extent[i]);
    return unmerge(b, b.flatten(b.slice(b.reshape(x, box.shape), box.start, limit)), view);
  }
  return read_by_gather(b, flat, view);
}

Value write_view(Lowering& b, Value base, int64_t storage_bytes, const View& view, Value value) {
  if (is_empty(view)) return base;
  const int64_t elements = storage_bytes / byte_size(view.dtype);
  if (covers_densely(view, elements) && elements * byte_size(view.dtype) == storage_bytes) {
    return b.reshape(to_memory_order(b, value, view), physical_shape(view.sizes, view.strides));
  }
  if (base.dtype() != view.dtype) {
    // Through the view's type and back; bytes past the last whole element stay.
    Value flat = reinterpret(b, base, view.dtype);
    Value written = write_view(b, flat, flat.numel() * byte_size(view.dtype), view, value);
    Value back = reinterpret(b, written, base.dtype());
    Value old = b.flatten(base);
    if (back.numel() < old.numel()) {
      Value parts[] = {back, b.slice_dim(old, 0, back.numel(), old.numel())};
      back = b.concatenate(parts, 0);
    }
    return b.reshape(back, base.shape());
  }
  Value flat = b.flatten(base);
  Value memory = to_memory_order(b, value, view);
  View dense = view;  // the axes that move, in memory order
  dense.sizes.clear();
  dense.strides.clear();
  for (const Axis& a : strided_axes(view)) {
    dense.sizes.push_back(a.size);
    dense.strides.push_back(a.stride);
  }
  if (auto box = box_of(dense, flat.numel())) {
    Value x = b.reshape(flat, box->shape);
    Value update = b.reshape(memory, box->extent);
    Values start;
    for (int64_t s : box->start) start.push_back(b.constant_int(DType::kS32, s));
    return b.reshape(b.dynamic_update_slice(x, update, start), base.shape());
  }
  if (span_of(dense) == numel(dense.sizes)) {
    Values start = {b.constant_int(DType::kS64, dense.offset)};
    return b.reshape(b.dynamic_update_slice(flat, b.flatten(memory), start), base.shape());
  }
  return b.reshape(write_by_scatter(b, flat, dense, memory), base.shape());
}

}  // namespace torch_tpu::lowering
