#pragma once

#include <atomic>
#include <cstdint>

namespace torch_tpu::runtime {

// Bytes and numbers of buffers held on one device. Counters are updated by every allocation, from
// any thread.
class MemoryStats {
 public:
  void allocated(int64_t bytes) {
    const int64_t now = current_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    raise(peak_bytes, now);
    raise(peak_buffers, current_buffers.fetch_add(1, std::memory_order_relaxed) + 1);
    total_bytes.fetch_add(bytes, std::memory_order_relaxed);
    total_buffers.fetch_add(1, std::memory_order_relaxed);
  }
  void freed(int64_t bytes) {
    current_bytes.fetch_sub(bytes, std::memory_order_relaxed);
    current_buffers.fetch_sub(1, std::memory_order_relaxed);
  }
  void reset_peak() {
    peak_bytes.store(current_bytes.load());
    peak_buffers.store(current_buffers.load());
  }
  void reset_accumulated() {
    base_bytes_.store(current_bytes.load());
    base_buffers_.store(current_buffers.load());
    total_bytes.store(0);
    total_buffers.store(0);
    out_of_memory.store(0);
  }

  // Since start or reset_accumulated().
  int64_t freed_bytes() const { return base_bytes_ + total_bytes - current_bytes; }
  int64_t freed_buffers() const { return base_buffers_ + total_buffers - current_buffers; }

  std::atomic<int64_t> current_bytes{0}, peak_bytes{0}, total_bytes{0};
  std::atomic<int64_t> current_buffers{0}, peak_buffers{0}, total_buffers{0};
  std::atomic<int64_t> out_of_memory{0};
  int64_t limit = INT64_MAX;

 private:
  // Held when the accumulated figures were last reset.
  std::atomic<int64_t> base_bytes_{0}, base_buffers_{0};
  static void raise(std::atomic<int64_t>& peak, int64_t now) {
    int64_t seen = peak.load(std::memory_order_relaxed);
    while (now > seen && !peak.compare_exchange_weak(seen, now, std::memory_order_relaxed)) {
    }
  }
};

}  // namespace torch_tpu::runtime
