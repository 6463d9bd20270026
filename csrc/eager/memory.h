#pragma once

#include <c10/core/CachingDeviceAllocator.h>

#include <cstdint>

namespace torch_tpu::eager {

// The c10 allocator of device "tpu", registered as such: it makes cells (storage.h), and answers
// torch.accelerator.memory_*. Nothing is cached, so reserved and allocated bytes are the same.
class TpuAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override;
  // Null: the deleter needs a cell, not an address.
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override;

  // Statistics are zero, and resetting them does nothing, until the client is started.
  bool initialized() override;
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  // Free and total bytes. Starts the client, which alone knows the capacity.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
};

// What a device can hold: the plugin's limit, TORCH_TPU_MEMORY_LIMIT on a CPU plugin, else the
// host's memory. Starts the client.
int64_t total_memory(int device);

}  // namespace torch_tpu::eager
