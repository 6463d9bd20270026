#pragma once

#include <c10/core/Stream.h>

#include <memory>

// All work of a device runs in the order in which it was issued, whatever the stream: streams are
// names, waiting for one another costs nothing, and synchronising one synchronises the device.

namespace torch_tpu::eager {

c10::Stream default_stream(int device);
// The calling thread's current stream of a device.
c10::Stream current_stream(int device);
// Returns the stream that was current on the same device.
c10::Stream exchange_current_stream(c10::Stream stream);
// A stream with an id of its own. Priorities are accepted and have no effect.
c10::Stream new_stream(int device);
// One of a fixed number of streams, in turn.
c10::Stream pooled_stream(int device);
bool stream_is_idle(c10::Stream stream);

// A point in a device's order of work: it completes with everything issued before it was recorded.
// Its time is the host's when that completion was reported.
class Event {
 public:
  Event(int device, bool timing) : device_(device), timing_(timing) {}

  // Doesn't wait. May be called again: the event then stands for the later point.
  void record();
  // Whether the work is done; true before the first record().
  bool query() const;
  void synchronize() const;
  // From this event's completion to the other's. Throws c10::Error unless both have timing, are
  // recorded and complete.
  double elapsed_milliseconds(const Event& end) const;
  int device() const { return device_; }

 private:
  struct Completion;
  int device_;
  bool timing_;
  std::shared_ptr<Completion> completion_;
  uint64_t ticket_ = 0;  // of the launch queue
};

}  // namespace torch_tpu::eager
