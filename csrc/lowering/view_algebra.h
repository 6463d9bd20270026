#pragma once

#include <optional>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// A strided view of a storage, in elements of `dtype` (as torch.as_strided).
struct View {
  DType dtype = DType::kF32;
  Shape sizes;
  Shape strides;
  int64_t offset = 0;
  bool operator==(const View&) const = default;
};

// Whether the view covers `storage_elements` elements densely, each once, from the start: then its
// value in memory order is the storage's content.
bool covers_densely(const View& view, int64_t storage_elements);

// Sizes in memory order: the shape of the buffer that a dense tensor of this layout makes.
Shape physical_shape(const Shape& sizes, const Shape& strides);

// The logical value of the view; `base` is the storage's content in row-major order, in any shape
// and element type (reinterpreted as torch.Tensor.view(dtype) does; bool as bytes).
Value read_view(Lowering& b, Value base, const View& view);

// The storage's new content after `value` (of the view's sizes and dtype) is written through the
// view. `base` may be undefined where the view covers the whole storage. The result has base's
// type, or the view's physical shape where it covers the storage.
Value write_view(Lowering& b, Value base, int64_t storage_bytes, const View& view, Value value);

}  // namespace torch_tpu::lowering
