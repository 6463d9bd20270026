#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/StorageImpl.h>

#include <atomic>

#include "runtime/buffer.h"

namespace torch_tpu::eager {

// What a torch Storage on the device points to: a mutable reference to an immutable value. The
// storage's data pointer is a unique address in an inaccessible range, never memory.
class Cell {
 public:
  Cell(void* address, int64_t bytes, int device)
      : address_(address), bytes_(bytes), device_(device) {}

  // Null: never written.
  runtime::BufferRef buffer() const {
    Lock lock(lock_);
    return buffer_;
  }
  void set(runtime::BufferRef buffer) {
    {
      Lock lock(lock_);
      buffer_.swap(buffer);
    }  // the old value goes outside of the lock
  }
  void* address() const { return address_; }
  int64_t bytes() const { return bytes_; }
  int device() const { return device_; }

 private:
  struct Lock {
    explicit Lock(std::atomic_flag& f) : flag(f) {
      while (flag.test_and_set(std::memory_order_acquire)) {
      }
    }
    ~Lock() { flag.clear(std::memory_order_release); }
    std::atomic_flag& flag;
  };
  mutable std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  runtime::BufferRef buffer_;
  void* address_;
  int64_t bytes_;
  int device_;
};

// The c10 allocator of device "tpu": makes cells, no memory (memory.h).
c10::Allocator* tpu_allocator();
// A new unwritten cell with an address of its own.
c10::DataPtr make_cell(int64_t bytes, int device);
// Whether an address is one of ours, and of which device (-1: not ours).
int device_of_address(const void* address);

// Whether a storage was made by this device's allocator.
bool is_tpu_storage(const c10::StorageImpl& storage);

inline Cell& cell_of(const c10::StorageImpl& storage) {
  return *static_cast<Cell*>(storage.data_ptr().get_context());
}
inline Cell* cell_of(const at::Tensor& tensor) {
  return static_cast<Cell*>(tensor.unsafeGetTensorImpl()
                                ->unsafe_storage()
                                .unsafeGetStorageImpl()
                                ->data_ptr()
                                .get_context());
}

// A new unwritten storage of `bytes` on device `index`.
c10::intrusive_ptr<c10::StorageImpl> make_storage(int64_t bytes, int device);
// Grows or shrinks a storage in place, keeping the leading bytes.
void resize_storage(c10::StorageImpl& storage, int64_t bytes);

// Runs `f`, turning the core's Error into the c10 exception that Python sees as the error's kind.
[[noreturn]] void rethrow_as_torch(const Error& error);
template <typename F>
auto translated(F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    rethrow_as_torch(error);
  }
}

}  // namespace torch_tpu::eager
