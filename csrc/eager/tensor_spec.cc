#include "eager/tensor_spec.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/TensorImpl.h>

#include "eager/scalar_type.h"
#include "eager/storage.h"

namespace torch_tpu::eager {

TensorSpec TensorSpec::of(const at::Tensor& tensor) {
  TensorSpec spec;
  if (!tensor.defined()) {
    spec.defined = false;
    return spec;
  }
  spec.dtype = tensor.scalar_type();
  spec.sizes = tensor.sizes().vec();
  spec.strides = tensor.strides().vec();
  spec.bytes = static_cast<int64_t>(
      at::detail::computeStorageNbytes(spec.sizes, spec.strides, tensor.dtype().itemsize()));
  return spec;
}

TensorSpec TensorSpec::contiguous(const TensorType& type) {
  TensorSpec spec;
  spec.dtype = scalar_type_of(type.dtype);
  spec.sizes = type.shape;
  spec.strides.resize(type.shape.size());
  int64_t step = 1;
  for (size_t i = type.shape.size(); i-- > 0;) {
    spec.strides[i] = step;
    step *= std::max<int64_t>(type.shape[i], 1);
  }
  spec.bytes = type.numel() * byte_size(type.dtype);
  return spec;
}

lowering::View TensorSpec::view() const { return {dtype_of(dtype), sizes, strides, 0}; }

TensorType TensorSpec::type() const { return {dtype_of(dtype), sizes}; }

lowering::View view_of(const at::Tensor& t) {
  return {dtype_of(t.scalar_type()), t.sizes().vec(), t.strides().vec(), t.storage_offset()};
}

at::Tensor make_tensor(const TensorSpec& spec, c10::intrusive_ptr<c10::StorageImpl> storage) {
  at::Tensor t = at::detail::make_tensor_base<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(spec.dtype));
  if (spec.sizes.size() != 1 || spec.sizes[0] != 0) {
    t.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
  }
  return t;
}

at::Tensor make_tensor(const TensorSpec& spec, int device) {
  return make_tensor(spec, make_storage(spec.bytes, device));
}

}  // namespace torch_tpu::eager
