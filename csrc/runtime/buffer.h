#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/buffer.h"
#include "runtime/memory_stats.h"
#include "stablehlo/tensor_type.h"

namespace torch_tpu::runtime {

class Device;

class Buffer;

// The buffers of one device that may still be in flight: intrusive, a few nanoseconds to enter or
// leave. A buffer found ready leaves.
class LiveBuffers {
 public:
  void enter(Buffer* buffer);
  void leave(Buffer* buffer);
  // The completions of those not ready now.
  std::vector<pjrt::Event> in_flight();
  // Waits for all that were there at the call.
  void await_all();

 private:
  std::mutex mutex_;
  Buffer* head_ = nullptr;
};

// Buffers that nobody holds but that are still being computed: destroying one of those would wait
// for it. They go when they are ready, all at a synchronisation, the oldest first when they hold
// too much.
class Graveyard {
 public:
  void bury(pjrt::Buffer buffer, int64_t bytes, MemoryStats& stats);
  // Destroys those that are ready; with `wait`, all.
  void sweep(MemoryStats& stats, bool wait);

 private:
  static constexpr int64_t kMaxBytes = int64_t{512} << 20;
  static constexpr size_t kMaxBuffers = 4096;
  std::mutex mutex_;
  std::deque<std::pair<pjrt::Buffer, int64_t>> buffers_;
  int64_t bytes_ = 0;
};

// An immutable value on a device, ready or in flight, counted in the device's memory statistics.
class Buffer {
 public:
  // `type` must live for ever (intern_type). `origin` names the call that made the value, for
  // errors that surface later; it must outlive the buffer too and may be null.
  Buffer(pjrt::Buffer buffer, const TensorType* type, Device& device,
         const std::string* origin = nullptr);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  PJRT_Buffer* raw() const { return buffer_.raw(); }
  const pjrt::Buffer& pjrt() const { return buffer_; }
  const TensorType& type() const { return *type_; }
  int64_t bytes() const { return bytes_; }
  Device& device() const { return device_; }
  // The memory now belongs to another buffer: it is no longer counted here.
  void donated();
  // Waits for the value; an asynchronous failure is thrown with the call that made it.
  void await() const;
  bool is_ready() const { return buffer_.is_ready(); }
  // The host address of a ready buffer on a CPU plugin, else null.
  const void* host_pointer() const;

 private:
  friend class LiveBuffers;
  Buffer* next_ = nullptr;
  Buffer* previous_ = nullptr;
  bool listed_ = false;
  pjrt::Buffer buffer_;
  const TensorType* type_;
  Device& device_;
  int64_t bytes_;
  const std::string* origin_;
};

using BufferRef = std::shared_ptr<Buffer>;

// One copy of each type, kept for ever.
const TensorType* intern_type(const TensorType& type);

}  // namespace torch_tpu::runtime
