#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "lowering/view_algebra.h"

namespace torch_tpu::eager {

// Metadata of a result tensor.
struct TensorSpec {
  bool defined = true;
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t bytes = 0;  // of its storage
  // The tensor argument whose storage it shares, from `offset` on; -1: a storage of its own.
  int alias = -1;
  int64_t offset = 0;

  static TensorSpec of(const at::Tensor& tensor);
  static TensorSpec contiguous(const TensorType& type);
  lowering::View view() const;
  TensorType type() const;  // logical
};

lowering::View view_of(const at::Tensor& tensor);

// A tensor of this metadata on `storage`.
at::Tensor make_tensor(const TensorSpec& spec, c10::intrusive_ptr<c10::StorageImpl> storage);
// The same on a new unwritten storage.
at::Tensor make_tensor(const TensorSpec& spec, int device);

}  // namespace torch_tpu::eager
