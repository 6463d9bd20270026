#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "pjrt/api.h"
#include "pjrt/event.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// Owns a PJRT_Buffer: an array on a device, possibly still being computed. Two pointers wide; may
// be empty, and then only raw(), release(), bool and assignment are allowed. Must go before the
// client it came from.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* adopted) : api_(api), raw_(adopted) {}
  Buffer(Buffer&& other) noexcept : api_(other.api_), raw_(std::exchange(other.raw_, nullptr)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  ~Buffer() { reset(); }

  explicit operator bool() const { return raw_ != nullptr; }
  const PJRT_Api* api() const { return api_; }
  PJRT_Buffer* raw() const { return raw_; }
  PJRT_Buffer* release() { return std::exchange(raw_, nullptr); }
  void reset() noexcept {
    if (raw_ == nullptr) return;
    TT_PJRT_ARGS(PJRT_Buffer_Destroy, args);
    args.buffer = std::exchange(raw_, nullptr);
    if (PJRT_Error* error = api_->PJRT_Buffer_Destroy(&args)) [[unlikely]]
      drop_error(api_, error, "destruction of a buffer");
  }

  // Becomes ready, or failed, with the contents.
  Event ready_event() const {
    TT_PJRT_ARGS(PJRT_Buffer_ReadyEvent, args);
    args.buffer = raw_;
    raise_if(api_, api_->PJRT_Buffer_ReadyEvent(&args), "query of a buffer");
    return Event(api_, args.event);
  }
  // Waits for the contents; throws their failure. A deleted or donated buffer fails too.
  void await() const { ready_event().await(); }
  bool is_ready() const { return ready_event().is_ready(); }

  // Deleted by hand or donated to an execution.
  bool is_deleted() const {
    TT_PJRT_ARGS(PJRT_Buffer_IsDeleted, args);
    args.buffer = raw_;
    raise_if(api_, api_->PJRT_Buffer_IsDeleted(&args), "query of a buffer");
    return args.is_deleted;
  }
  // Frees the device memory now and keeps the handle, whose further use is an error.
  void delete_contents();

  bool is_on_cpu() const {
    TT_PJRT_ARGS(PJRT_Buffer_IsOnCpu, args);
    args.buffer = raw_;
    raise_if(api_, api_->PJRT_Buffer_IsOnCpu(&args), "query of a buffer");
    return args.is_on_cpu;
  }
  // Address on the device, which is the host's where is_on_cpu(). Doesn't wait for the contents,
  // and doesn't keep them: hold the buffer, and an ExternalReference against donation.
  void* unsafe_pointer() const {
    TT_PJRT_ARGS(PJRT_Buffer_UnsafePointer, args);
    args.buffer = raw_;
    raise_if(api_, api_->PJRT_Buffer_UnsafePointer(&args), "address of a buffer");
    return reinterpret_cast<void*>(args.buffer_pointer);
  }

  // Padded sizes where a dimension is dynamic. Valid as long as the buffer.
  std::span<const int64_t> dims() const;
  // Sizes without padding.
  std::span<const int64_t> unpadded_dims() const;
  PJRT_Buffer_Type element_type() const;
  // Bytes held on the device.
  size_t size_bytes() const;
  PJRT_Device* device() const;
  PJRT_Memory* memory() const;

  // Bytes that to_host writes: dense, row-major.
  size_t host_size_bytes() const;
  // Starts a copy to the host, dense and row-major, once the contents are ready; `dst` must live
  // until the event. A failure of the contents, deletion included, may come with the event.
  Event to_host(void* dst, size_t size) const;
  // Bytes as they lie on the device. kNotImplemented where the plugin can't.
  Event copy_raw_to_host(void* dst, int64_t offset, int64_t size) const;

  Buffer copy_to_device(PJRT_Device* device) const;
  Buffer copy_to_memory(PJRT_Memory* memory) const;

  // While the count is above zero the plugin neither frees nor donates the memory: an execution
  // that would donate it copies instead.
  void increase_external_reference_count() const;
  void decrease_external_reference_count() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* raw_ = nullptr;
};

// Holds one external reference of a buffer, which must outlive it.
class ExternalReference {
 public:
  explicit ExternalReference(const Buffer& buffer) : buffer_(&buffer) {
    buffer.increase_external_reference_count();
  }
  ExternalReference(ExternalReference&& other) noexcept
      : buffer_(std::exchange(other.buffer_, nullptr)) {}
  ExternalReference& operator=(ExternalReference&&) = delete;
  ~ExternalReference();

 private:
  const Buffer* buffer_;
};

}  // namespace torch_tpu::pjrt
