#include "eager/stream_event.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

constexpr c10::StreamId kDefaultStream = 0;
constexpr c10::StreamId kPoolSize = 32;
constexpr size_t kMaxDevices = 64;

thread_local std::array<c10::StreamId, kMaxDevices> current_streams{};

c10::Stream make_stream(int device, c10::StreamId id) {
  const c10::Device d(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device));
  return c10::Stream(c10::Stream::UNSAFE, d, id);
}

c10::StreamId& current_id(int device) {
  TORCH_CHECK(device >= 0 && device < runtime::Runtime::device_count(),
              "TPU error: invalid device ordinal ", device, ": there are ",
              runtime::Runtime::device_count(), " devices");
  return current_streams[static_cast<size_t>(device)];
}

int64_t host_time_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

c10::Stream default_stream(int device) { return make_stream(device, kDefaultStream); }

c10::Stream current_stream(int device) { return make_stream(device, current_id(device)); }

c10::Stream exchange_current_stream(c10::Stream stream) {
  c10::StreamId& id = current_id(stream.device_index());
  const c10::Stream previous = make_stream(stream.device_index(), id);
  id = stream.id();
  return previous;
}

c10::Stream new_stream(int device) {
  static std::atomic<c10::StreamId> next{kPoolSize + 1};
  return make_stream(device, next.fetch_add(1));
}

c10::Stream pooled_stream(int device) {
  static std::atomic<uint64_t> next{0};
  return make_stream(device, 1 + static_cast<c10::StreamId>(next.fetch_add(1) % kPoolSize));
}

bool stream_is_idle(c10::Stream stream) {
  if (!runtime::Runtime::started()) return true;
  runtime::Device& device = runtime::Runtime::get().device(stream.device_index());
  return device.queue().idle() && device.live().in_flight().empty();
}

// Shared with the plugin's callbacks, which may come after the event is gone.
struct Event::Completion {
  std::mutex mutex;
  std::condition_variable done;
  size_t pending = 1;  // what is in flight, and record() itself
  int64_t at_ns = 0;

  void one_finished() {
    const std::lock_guard lock(mutex);
    if (--pending != 0) return;
    at_ns = host_time_ns();
    done.notify_all();
  }
};

void Event::record() {
  completion_ = std::make_shared<Completion>();
  ticket_ = 0;
  if (!runtime::Runtime::started()) {
    completion_->one_finished();
    return;
  }
  runtime::Device& device = runtime::Runtime::get().device(device_);
  // In its turn: once all earlier launches have been handed to the plugin, what is in flight then.
  ticket_ = device.queue().push_action([completion = completion_, &device] {
    for (const pjrt::Event& event : device.live().in_flight()) {
      {
        const std::lock_guard lock(completion->mutex);
        ++completion->pending;
      }
      // A failure completes the event too: it belongs to the value.
      event.on_ready([completion](const Error*) { completion->one_finished(); });
    }
    completion->one_finished();
  });
}

bool Event::query() const {
  if (!completion_) return true;
  const std::lock_guard lock(completion_->mutex);
  return completion_->pending == 0;
}

void Event::synchronize() const {
  if (!completion_) return;
  if (ticket_ != 0) runtime::Runtime::get().device(device_).queue().wait(ticket_);
  std::unique_lock lock(completion_->mutex);
  completion_->done.wait(lock, [&] { return completion_->pending == 0; });
}

double Event::elapsed_milliseconds(const Event& end) const {
  TORCH_CHECK_VALUE(timing_ && end.timing_,
                    "Both events must be created with argument 'enable_timing=True'.");
  TORCH_CHECK_VALUE(completion_ && end.completion_,
                    "Both events must be recorded before calculating elapsed time.");
  TORCH_CHECK(query() && end.query(),
              "Both events must be completed before calculating elapsed time.");
  return static_cast<double>(end.completion_->at_ns - completion_->at_ns) * 1e-6;
}

namespace {

// A buffer lives as long as work that reads it.
void record_stream(at::Tensor&, c10::Stream) {}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("record_stream", record_stream); }

}  // namespace
}  // namespace torch_tpu::eager
