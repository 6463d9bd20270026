#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/buffer.h"

namespace torch_tpu::runtime {

class Program;
using ProgramRef = std::shared_ptr<const Program>;

// One run of a program on one device: what it reads and the buffers it fulfils.
struct Launch {
  ProgramRef program;  // may still be compiling; null: `action` runs in this turn instead
  std::function<void()> action;
  std::vector<BufferRef> inputs;
  std::vector<BufferRef> outputs;
  // Inputs whose memory an output takes over, if by then nobody else holds them.
  std::vector<uint32_t> donations;
  const std::string* origin = nullptr;
  int64_t reserved = 0;  // bytes of memory it will add

  void clear();
};

// The launches of one device, run in the order in which they were pushed by a thread of its own, or
// by a thread that waits for one of them: nobody hops between threads to get a value. A launch
// whose program fails, or one of whose inputs did, fails its outputs and the next one runs.
//
// Values are immutable and a write makes a new one, so this order is all that readers and writers
// need: when the turn of a donating launch comes, those that read the old value have run.
class LaunchQueue {
 public:
  explicit LaunchQueue(Device& device) : device_(device) {}
  LaunchQueue(const LaunchQueue&) = delete;
  LaunchQueue& operator=(const LaunchQueue&) = delete;
  ~LaunchQueue() { stop(); }

  // Takes the content of `launch`, which gets back empty vectors with capacity. `before_publish`
  // runs once outputs have their ticket and before the launch can run. Waits when kCapacity
  // launches wait already. Returns the ticket.
  template <typename F>
  uint64_t push(Launch& launch, F&& before_publish) {
    std::unique_lock lock = lock_with_room();
    const uint64_t index = tail_.load(std::memory_order_relaxed);
    for (const BufferRef& output : launch.outputs) output->pend(index + 1);
    before_publish();
    publish(launch, index);
    return index + 1;
  }
  // Runs `action` after all that was pushed before.
  uint64_t push_action(std::function<void()> action);

  // Returns when the launch of this ticket, and all before it, have been handed to the plugin.
  void wait(uint64_t ticket);
  void drain() { wait(tail_.load(std::memory_order_acquire)); }
  bool idle() const {
    return head_.load(std::memory_order_seq_cst) == tail_.load(std::memory_order_seq_cst);
  }
  // Bytes that waiting launches will add.
  int64_t reserved() const { return reserved_.load(std::memory_order_relaxed); }
  // Ends the thread. Launches that still wait run when somebody waits for them.
  void stop();

 private:
  static constexpr uint64_t kCapacity = 4096;  // a power of two

  std::unique_lock<std::mutex> lock_with_room();
  void publish(Launch& launch, uint64_t index);
  void run_front();
  void execute(Launch& launch);
  static void fail_outputs(Launch& launch, const Error& error);
  void thread_main();
  void wake();

  Device& device_;
  std::vector<Launch> slots_;
  std::mutex push_mutex_;
  std::mutex run_mutex_;
  alignas(64) std::atomic<uint64_t> tail_{0};  // next to push
  alignas(64) std::atomic<uint64_t> head_{0};  // next to run; all before have run
  std::atomic<int64_t> reserved_{0};
  std::atomic<int> waiters_{0};
  std::atomic<bool> asleep_{false};
  std::atomic<bool> stopped_{false};
  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::thread thread_;
  std::vector<PJRT_Buffer*> raw_inputs_, raw_outputs_;
  std::vector<int64_t> shared_;
};

}  // namespace torch_tpu::runtime
