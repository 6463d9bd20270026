#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "pjrt/buffer.h"
#include "runtime/memory_stats.h"
#include "stablehlo/tensor_type.h"

namespace torch_tpu::runtime {

class Device;

class Buffer;

// The buffers of one device that may still be in flight: intrusive, a few nanoseconds to enter or
// leave. Buffers that are ready when they are made never enter.
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

// An immutable value on a device: to be made by a launch that waits for its turn, in flight, ready,
// or failed. Counted in the device's memory statistics once it is launched.
class Buffer {
 public:
  // `type` must live for ever (intern_type). `origin` names the call that made the value, for
  // errors that surface later; it must live for ever too (intern_origin) and may be null.
  Buffer(pjrt::Buffer buffer, const TensorType* type, Device& device,
         const std::string* origin = nullptr);
  // A value to come: pend() tells from which launch, before anyone else sees the buffer.
  Buffer(const TensorType* type, Device& device, const std::string* origin);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  void pend(uint64_t ticket) { ticket_ = ticket; }
  // Ends the wait of a buffer to come; by the thread that runs the launch.
  void fulfil(pjrt::Buffer buffer);
  void fail(Error error);

  const TensorType& type() const { return *type_; }
  int64_t bytes() const { return bytes_; }
  Device& device() const { return device_; }

  // The launch's turn has come and it didn't fail: raw() and pjrt() may be used.
  bool launched() const { return state_.load(std::memory_order_acquire) == State::kLaunched; }
  bool failed() const { return state_.load(std::memory_order_acquire) == State::kFailed; }
  const Error& error() const { return *error_; }
  void throw_if_failed() const {
    if (failed()) [[unlikely]]
      throw *error_;
  }
  // Waits for the launch, not for its end; throws its failure.
  void await_launch() const;
  PJRT_Buffer* raw() const { return buffer_.raw(); }
  const pjrt::Buffer& pjrt() const { return buffer_; }
  // The memory now belongs to another buffer: it is no longer counted here.
  void donated();
  // Waits for the value; an asynchronous failure is thrown with the call that made it.
  void await() const;
  // The host address of a ready buffer on a CPU plugin, else null.
  const void* host_pointer() const;

 private:
  friend class LiveBuffers;
  enum class State : uint8_t { kPending, kLaunched, kFailed };

  void account();

  Buffer* next_ = nullptr;
  Buffer* previous_ = nullptr;
  bool listed_ = false;
  bool ready_ = false;    // known to be
  bool counted_ = false;  // in the memory statistics
  std::atomic<State> state_;
  pjrt::Buffer buffer_;
  const TensorType* type_;
  Device& device_;
  int64_t bytes_;
  const std::string* origin_;
  uint64_t ticket_ = 0;
  std::unique_ptr<const Error> error_;
};

using BufferRef = std::shared_ptr<Buffer>;

// One copy of each type, kept for ever.
const TensorType* intern_type(const TensorType& type);
// One copy of each text, kept for ever.
const std::string* intern_origin(std::string text);

}  // namespace torch_tpu::runtime
