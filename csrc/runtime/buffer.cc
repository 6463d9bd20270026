#include "runtime/buffer.h"

#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "base/error.h"
#include "runtime/runtime.h"

namespace torch_tpu::runtime {

void LiveBuffers::enter(Buffer* buffer) {
  std::lock_guard lock(mutex_);
  buffer->next_ = head_;
  if (head_ != nullptr) head_->previous_ = buffer;
  head_ = buffer;
  buffer->listed_ = true;
}

void LiveBuffers::leave(Buffer* buffer) {
  std::lock_guard lock(mutex_);
  if (!buffer->listed_) return;
  buffer->listed_ = false;
  if (buffer->previous_ != nullptr) {
    buffer->previous_->next_ = buffer->next_;
  } else {
    head_ = buffer->next_;
  }
  if (buffer->next_ != nullptr) buffer->next_->previous_ = buffer->previous_;
  buffer->next_ = buffer->previous_ = nullptr;
}

std::vector<pjrt::Event> LiveBuffers::in_flight() {
  std::vector<pjrt::Event> events;
  {
    std::lock_guard lock(mutex_);
    for (Buffer* b = head_; b != nullptr; b = b->next_) {
      if (!b->counted_) continue;  // donated
      try {
        pjrt::Event event = b->buffer_.ready_event();
        if (!event.is_ready()) events.push_back(std::move(event));
      } catch (const Error&) {
        // The failure is met again when the value is used.
      }
    }
  }
  return events;
}

void LiveBuffers::await_all() {
  for (const pjrt::Event& event : in_flight()) {
    try {
      event.await();
    } catch (const Error&) {
    }
  }
}

void Graveyard::bury(pjrt::Buffer buffer, int64_t bytes, MemoryStats& stats) {
  {
    std::lock_guard lock(mutex_);
    buffers_.emplace_back(std::move(buffer), bytes);
    bytes_ += bytes;
  }
  sweep(stats, false);
}

void Graveyard::sweep(MemoryStats& stats, bool wait) {
  for (;;) {
    std::pair<pjrt::Buffer, int64_t> oldest;
    {
      std::lock_guard lock(mutex_);
      if (buffers_.empty()) return;
      const bool crowded = bytes_ > kMaxBytes || buffers_.size() > kMaxBuffers;
      bool ready = true;
      try {
        ready = wait || crowded || buffers_.front().first.is_ready();
      } catch (const Error&) {
      }
      if (!ready) return;
      oldest = std::move(buffers_.front());
      buffers_.pop_front();
      bytes_ -= oldest.second;
    }
    oldest.first.reset();  // outside of the lock: it may wait
    stats.freed(oldest.second);
  }
}

Buffer::Buffer(pjrt::Buffer buffer, const TensorType* type, Device& device,
               const std::string* origin)
    : state_(State::kLaunched),
      buffer_(std::move(buffer)),
      type_(type),
      device_(device),
      bytes_(type->numel() * byte_size(type->dtype)),
      origin_(origin) {
  account();
}

Buffer::Buffer(const TensorType* type, Device& device, const std::string* origin)
    : state_(State::kPending),
      type_(type),
      device_(device),
      bytes_(type->numel() * byte_size(type->dtype)),
      origin_(origin) {}

void Buffer::account() {
  counted_ = true;
  device_.memory().allocated(bytes_);
  try {
    ready_ = buffer_.is_ready();
  } catch (const Error&) {
    // The failure is met again when the value is used.
  }
  if (!ready_) device_.live().enter(this);
}

void Buffer::fulfil(pjrt::Buffer buffer) {
  buffer_ = std::move(buffer);
  account();
  state_.store(State::kLaunched, std::memory_order_release);
}

void Buffer::fail(Error error) {
  error_ = std::make_unique<const Error>(std::move(error));
  state_.store(State::kFailed, std::memory_order_release);
}

Buffer::~Buffer() {
  // In a forked child the plugin's threads are gone and its locks may be held for ever.
  if (Runtime::in_bad_fork()) [[unlikely]] {
    static_cast<void>(buffer_.release());
    return;
  }
  if (listed_) device_.live().leave(this);
  if (!counted_) return;
  bool ready = ready_;
  try {
    ready = ready || buffer_.is_ready();
  } catch (const Error&) {
    ready = true;  // a failed value has nothing to wait for
  }
  if (ready) {
    buffer_.reset();
    device_.memory().freed(bytes_);
  } else {
    device_.graveyard().bury(std::move(buffer_), bytes_, device_.memory());
  }
}

void Buffer::donated() {
  device_.memory().freed(bytes_);
  counted_ = false;
}

void Buffer::await_launch() const {
  if (state_.load(std::memory_order_acquire) == State::kPending) device_.queue().wait(ticket_);
  throw_if_failed();
}

void Buffer::await() const {
  await_launch();
  if (ready_) return;
  try {
    buffer_.await();
  } catch (const Error& error) {
    if (origin_ == nullptr) throw;
    throw error.with_context(*origin_);
  }
}

const void* Buffer::host_pointer() const {
  if (!device_.capabilities().host_pointers) return nullptr;
  return buffer_.unsafe_pointer();
}

const TensorType* intern_type(const TensorType& type) {
  static std::mutex mutex;
  static auto* types = new std::map<std::pair<DType, Shape>, TensorType>();
  std::lock_guard lock(mutex);
  return &types->try_emplace({type.dtype, type.shape}, type).first->second;
}

const std::string* intern_origin(std::string text) {
  static std::mutex mutex;
  static auto* texts = new std::set<std::string>();
  std::lock_guard lock(mutex);
  return &*texts->insert(std::move(text)).first;
}

}  // namespace torch_tpu::runtime
