#pragma once

#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

namespace torch_tpu::runtime {

// Blocks of host memory for transfers, kept for reuse: fresh ones cost a page fault per page.
// Aligned so that CPU plugins take them over without a copy. Thread-safe.
class HostPool {
 public:
  // Smaller transfers are copied by the plugin.
  static constexpr size_t kMinBytes = size_t{64} << 10;

  HostPool() = default;
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;
  ~HostPool();

  // At least `bytes`, 64-byte aligned. Throws std::bad_alloc.
  void* take(size_t bytes);
  // Gives back what take(bytes) gave.
  void give(void* block, size_t bytes) noexcept;

  static HostPool& get();

 private:
  static constexpr size_t kMaxKept = size_t{256} << 20;
  std::mutex mutex_;
  std::array<std::vector<void*>, 64> free_;
  size_t kept_ = 0;
};

}  // namespace torch_tpu::runtime
