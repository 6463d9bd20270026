#include "eager/views.h"

#include <ATen/NativeFunctions.h>
#include <ATen/native/Resize.h>

#include "eager/storage.h"

namespace torch_tpu::eager {
namespace {

at::Tensor& set_storage(at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef sizes,
                        at::IntArrayRef strides) {
  at::native::checkSetStorage(self, source, offset, sizes, strides);
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  if (self.sizes() != sizes || (!strides.empty() && self.strides() != strides)) {
    if (strides.data() == nullptr) {
      self.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
    } else {
      self.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
    }
  }
  const auto needed = static_cast<int64_t>(at::detail::computeStorageNbytes(
      self.sizes(), self.strides(), self.dtype().itemsize(), offset));
  c10::StorageImpl& storage = *self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (self.numel() > 0 && needed > static_cast<int64_t>(storage.nbytes())) {
    translated([&] { resize_storage(storage, needed); });
  }
  return self;
}

at::Tensor& set_source_storage(at::Tensor& self, at::Storage source) {
  const auto elements = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, elements, {});
}

at::Tensor& set_source_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.storage_offset(), source.sizes(),
                     source.strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  return set_storage(self, at::Storage(make_storage(0, static_cast<int>(self.device().index()))), 0,
                     {0}, {});
}

bool is_set_to(const at::Tensor& self, const at::Tensor& other) {
  return self.storage().unsafeGetStorageImpl() == other.storage().unsafeGetStorageImpl() &&
         self.storage_offset() == other.storage_offset() && self.sizes() == other.sizes() &&
         self.strides() == other.strides();
}

}  // namespace

void register_views(torch::Library& m) {
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_source_storage);
  m.impl("set_.source_Tensor", set_source_tensor);
  m.impl("set_", set_nothing);
  m.impl("is_set_to", is_set_to);
}

}  // namespace torch_tpu::eager
