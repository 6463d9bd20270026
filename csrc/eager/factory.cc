#include "eager/factory.h"

#include <ATen/EmptyTensor.h>
#include <ATen/native/Copy.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/eq.h>
#include <c10/core/DefaultDtype.h>

#include "eager/copy.h"
#include "eager/device_index.h"
#include "eager/scalar_type.h"
#include "eager/storage.h"
#include "eager/trace.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

int checked_device(std::optional<at::Device> device) {
  if (!device || !device->has_index()) return current_device();
  const int count = runtime::Runtime::device_count();
  TORCH_CHECK(device->index() < count, "TPU error: invalid device ordinal: ", device->str(),
              " was asked for, there ",
              count == 1 ? "is 1 device" : "are " + std::to_string(count) + " devices");
  return device->index();
}

void check_options(at::ScalarType dtype, std::optional<at::Layout> layout,
                   std::optional<bool> pin_memory) {
  dtype_of(dtype);
  TORCH_CHECK_NOT_IMPLEMENTED(layout.value_or(at::kStrided) == at::kStrided,
                              "tpu: tensors of layout ", *layout, " are not implemented");
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor with_storage(int64_t bytes, int device, at::ScalarType dtype) {
  return at::detail::make_tensor_base<c10::TensorImpl>(
      make_storage(bytes, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
}

}  // namespace

at::Tensor empty(c10::SymIntArrayRef sym_sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> layout, std::optional<at::Device> device,
                 std::optional<bool> pin_memory, std::optional<at::MemoryFormat> memory_format) {
  const at::ScalarType type = at::dtype_or_default(dtype);
  check_options(type, layout, pin_memory);
  const auto sizes = C10_AS_INTARRAYREF_SLOW(sym_sizes);
  at::detail::check_size_nonnegative(sizes);
  const auto bytes = static_cast<int64_t>(
      at::detail::computeStorageNbytesContiguous(sizes, c10::elementSize(type)));
  at::Tensor t = with_storage(bytes, checked_device(device), type);
  if (sizes.size() != 1 || sizes[0] != 0) t.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  if (memory_format && *memory_format != at::MemoryFormat::Contiguous) {
    t.unsafeGetTensorImpl()->empty_tensor_restride(*memory_format);
  }
  return t;
}

at::Tensor empty_strided(c10::SymIntArrayRef sym_sizes, c10::SymIntArrayRef sym_strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory) {
  const at::ScalarType type = at::dtype_or_default(dtype);
  check_options(type, layout, pin_memory);
  const auto sizes = C10_AS_INTARRAYREF_SLOW(sym_sizes);
  const auto strides = C10_AS_INTARRAYREF_SLOW(sym_strides);
  at::detail::check_size_nonnegative(sizes);
  TORCH_CHECK(sizes.size() == strides.size(), "mismatch in length of strides and shape: ", sizes,
              " and ", strides);
  for (int64_t s : strides)
    TORCH_CHECK(s >= 0, "negative strides are not supported at the moment, got strides ", strides);
  const auto bytes = static_cast<int64_t>(
      at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)));
  at::Tensor t = with_storage(bytes, checked_device(device), type);
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor target = dst;
  translated([&] { copy_(target, self, non_blocking); });
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  if (self.sizes() != dst.sizes()) dst.resize_(self.sizes());
  return copy_from(self, dst, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  return translated([&] { return at::_local_scalar_dense(host_view(self)); });
}

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ",
              self.scalar_type(), " but got data type ", other.scalar_type(),
              " for argument 'other' in call to equal");
  if (self.sizes() != other.sizes()) return false;
  if (self.numel() == 0) return true;
  return at::eq(self, other).all().item<bool>();
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  auto dense = [](const at::Tensor& t) {
    const auto keys = t.key_set();
    return t.layout() == at::kStrided && !keys.has(c10::DispatchKey::Meta) && !t.is_nested() &&
           (keys.has(c10::DispatchKey::CPU) || keys.has(c10::DispatchKey::CUDA) ||
            t.is_privateuseone());
  };
  return dense(self) && dense(from);
}

const at::Tensor& resize_(const at::Tensor& self, c10::SymIntArrayRef sym_sizes,
                          std::optional<at::MemoryFormat> format) {
  translated([&] {
    const auto sizes = C10_AS_INTARRAYREF_SLOW(sym_sizes);
    c10::TensorImpl* impl = self.unsafeGetTensorImpl();
    at::detail::check_size_nonnegative(sizes);
    if (impl->sizes() != sizes) {
      impl->set_sizes_contiguous(sizes);
      const auto needed = static_cast<int64_t>(at::detail::computeStorageNbytes(
          impl->sizes(), impl->strides(), self.dtype().itemsize(), impl->storage_offset()));
      c10::StorageImpl& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
      if (needed > static_cast<int64_t>(storage.nbytes())) resize_storage(storage, needed);
    }
    if (format) {
      TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format ", *format);
      impl->empty_tensor_restride(*format);
    }
  });
  return self;
}

void resize_storage(c10::StorageImpl& storage, int64_t bytes) {
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  refuse_in_trace("resizing a storage");
  Cell& old = cell_of(storage);
  const int64_t kept = std::min(old.bytes(), bytes);
  c10::intrusive_ptr<c10::StorageImpl> fresh = make_storage(bytes, old.device());
  const runtime::BufferRef buffer = old.buffer();
  if (buffer && kept > 0) {
    // The leading bytes, in the storage's own type where whole elements stay.
    DType dtype = buffer->type().dtype;
    if (kept % byte_size(dtype) != 0 || bytes % byte_size(dtype) != 0) dtype = DType::kU8;
    const int64_t n = kept / byte_size(dtype);
    c10::intrusive_ptr<c10::StorageImpl> source = make_storage(old.bytes(), old.device());
    cell_of(*source).set(buffer);
    TensorSpec spec = TensorSpec::contiguous({dtype, {n}});
    at::Tensor from = make_tensor(spec, source);
    at::Tensor to = make_tensor(spec, fresh);
    copy_(to, from, false);
  }
  // The tensors of this storage go on with the new content.
  storage.set_data_ptr_noswap(std::move(fresh->_mutable_data_ptr_no_checks()));
  storage.set_nbytes(bytes);
}

}  // namespace torch_tpu::eager
