#include "eager/copy.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/_conj.h>
#include <ATen/ops/_neg_view.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "eager/kernel.h"
#include "eager/scalar_type.h"
#include "eager/tensor_spec.h"
#include "eager/trace.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

// Runs aten::copy_ through its rule.
void copy_on_device(at::Tensor& self, const at::Tensor& src) {
  static const c10::OperatorHandle op =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::copy_", "");
  static Kernel kernel;
  torch::jit::Stack stack;
  stack.emplace_back(self);
  stack.emplace_back(src);
  stack.emplace_back(false);
  kernel(op, c10::DispatchKeySet(), &stack);
}

void upload(const at::Tensor& self, const at::Tensor& src) {
  Cell* cell = cell_of(self);
  const lowering::View view = view_of(self);
  const int64_t elements = cell->bytes() / byte_size(view.dtype);
  if (!lowering::covers_densely(view, elements) ||
      elements * byte_size(view.dtype) != cell->bytes() || Trace::active() != nullptr) {
    // Part of a storage: through a tensor of its own.
    at::Tensor whole =
        make_tensor(TensorSpec::contiguous({view.dtype, view.sizes}), cell->device());
    {
      Trace::Guard eagerly(nullptr);
      upload(whole, src);
    }
    at::Tensor target = self;
    copy_on_device(target, whole);
    return;
  }
  // In the memory order of the device tensor.
  at::Tensor host = src;
  if (src.scalar_type() != self.scalar_type() || src.sizes() != self.sizes() ||
      src.strides() != self.strides()) {
    host = at::empty_strided(self.sizes(), self.strides(),
                             src.options().dtype(self.scalar_type()).pinned_memory(false));
    host.copy_(src);
  }
  runtime::Runtime& runtime = runtime::Runtime::get();
  const TensorType* type =
      runtime::intern_type({view.dtype, lowering::physical_shape(view.sizes, view.strides)});
  cell->set(runtime.to_device(host.const_data_ptr(), type, runtime.device(cell->device())));
}

}  // namespace

at::Tensor host_view(const at::Tensor& tensor) {
  refuse_in_trace("reading a tensor on the host");
  c10::impl::ExcludeDispatchKeyGuard no_autograd(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  const auto options = at::TensorOptions().dtype(tensor.scalar_type()).device(c10::kCPU);
  const Cell* cell = cell_of(tensor);
  const runtime::BufferRef buffer = cell->buffer();
  if (!buffer) {
    return at::empty_strided(tensor.sizes(), tensor.strides(), options).zero_();
  }
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  buffer->await();
  if (const void* p = buffer->host_pointer();
      p != nullptr && buffer->device().capabilities().dense_row_major) {
    auto* start = static_cast<char*>(const_cast<void*>(p)) +
                  tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
    return at::from_blob(start, tensor.sizes(), tensor.strides(), [buffer](void*) {}, options);
  }
  const lowering::View view = view_of(tensor);
  const bool whole = view.dtype == buffer->type().dtype &&
                     lowering::covers_densely(view, cell->bytes() / byte_size(view.dtype));
  if (!whole) {
    at::Tensor dense =
        make_tensor(TensorSpec::contiguous({view.dtype, view.sizes}), cell->device());
    copy_on_device(dense, tensor);
    return host_view(dense);
  }
  at::Tensor host = at::empty_strided(tensor.sizes(), tensor.strides(), options);
  runtime::Runtime::get().to_host(*buffer, host.mutable_data_ptr());
  return host;
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  if (self.is_same(src)) return self;
  // The bits are settled on the device, after the plain copy.
  if (src.is_conj() || src.is_neg() || self.is_conj() || self.is_neg()) {
    const bool conj = src.is_conj() != self.is_conj();
    const bool neg = src.is_neg() != self.is_neg();
    at::Tensor plain_src = src.is_conj() ? at::_conj(src) : src;
    if (plain_src.is_neg()) plain_src = at::_neg_view(plain_src);
    at::Tensor plain_self = self.is_conj() ? at::_conj(self) : self;
    if (plain_self.is_neg()) plain_self = at::_neg_view(plain_self);
    plain_self.copy_(plain_src, non_blocking);
    if (conj && self.is_complex()) plain_self.conj_physical_();
    if (neg) plain_self.neg_();
    return self;
  }
  TORCH_CHECK(self.defined() && src.defined(), "aten::copy_: undefined tensor");
  const bool self_here = self.is_privateuseone();
  const bool src_here = src.is_privateuseone();
  if (self_here && src_here) {
    if (self.device() == src.device()) {
      copy_on_device(self, src);
      return self;
    }
    // Between devices: the content moves as it is, the rest happens at the destination.
    refuse_in_trace("a copy between devices");
    const at::Tensor dense = src.is_non_overlapping_and_dense() && src.storage_offset() == 0 &&
                                     src.nbytes() == src.storage().nbytes()
                                 ? src
                                 : src.contiguous();
    at::Tensor there = make_tensor(TensorSpec::of(dense), static_cast<int>(self.device().index()));
    if (const runtime::BufferRef buffer = cell_of(dense)->buffer()) {
      runtime::Device& device =
          runtime::Runtime::get().device(static_cast<int>(self.device().index()));
      buffer->await_launch();
      device.reserve(buffer->bytes());
      cell_of(there)->set(std::make_shared<runtime::Buffer>(
          buffer->pjrt().copy_to_device(device.raw()), &buffer->type(), device));
    }
    copy_on_device(self, there);
    return self;
  }
  if (self_here) {
    const at::Tensor host = src.is_cpu() ? src : src.cpu();
    at::Tensor expanded = host;
    if (host.sizes() != self.sizes()) {
      TORCH_CHECK(at::is_expandable_to(host.sizes(), self.sizes()), "The size of tensor a (",
                  self.dim() > 0 ? self.size(-1) : 1, ") must match the size of tensor b (",
                  host.dim() > 0 ? host.size(-1) : 1, ") at non-singleton dimension ",
                  std::max<int64_t>(self.dim() - 1, 0));
      expanded = host.expand(self.sizes());
    }
    upload(self, expanded);
    return self;
  }
  const at::Tensor host = host_view(src);
  // One thread moves a few megabytes before two have agreed to share them.
  constexpr size_t kSmall = size_t{8} << 20;
  if (host.nbytes() <= kSmall && self.is_cpu() && self.scalar_type() == host.scalar_type() &&
      self.sizes() == host.sizes() && self.strides() == host.strides() &&
      self.is_non_overlapping_and_dense()) {
    if (host.nbytes() > 0)
      std::memcpy(self.mutable_data_ptr(), host.const_data_ptr(), host.nbytes());
    return self;
  }
  self.copy_(host, non_blocking);
  return self;
}

}  // namespace torch_tpu::eager
