#include "eager/memory.h"

#include <c10/util/Exception.h>
#include <unistd.h>

#include <algorithm>

#include "eager/device_index.h"
#include "eager/storage.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

using c10::CachingAllocator::StatType;
using c10::CachingDeviceAllocator::DeviceStats;

runtime::MemoryStats* stats_of(c10::DeviceIndex device) {
  if (!runtime::Runtime::started()) return nullptr;
  return translated([&] {
    runtime::Device& d = runtime::Runtime::get().device(device < 0 ? current_device() : device);
    // Figures of work that waits for its turn would be missing.
    d.queue().drain();
    return &d.memory();
  });
}

int64_t host_pages(int name) {
  return static_cast<int64_t>(sysconf(name)) * static_cast<int64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

c10::DataPtr TpuAllocator::allocate(size_t bytes) {
  return make_cell(static_cast<int64_t>(bytes), current_device());
}

void TpuAllocator::copy_data(void*, const void*, size_t) const {
  TORCH_CHECK(false, "tpu: raw copies between storages are not possible, copy tensors");
}

bool TpuAllocator::initialized() { return runtime::Runtime::started(); }

DeviceStats TpuAllocator::getDeviceStats(c10::DeviceIndex device) {
  DeviceStats stats;
  const runtime::MemoryStats* memory = stats_of(device);
  if (memory == nullptr) return stats;

  constexpr auto kAll = static_cast<size_t>(StatType::AGGREGATE);
  c10::CachingAllocator::Stat bytes;
  bytes.current = memory->current_bytes;
  bytes.peak = memory->peak_bytes;
  bytes.allocated = memory->total_bytes;
  bytes.freed = memory->freed_bytes();
  c10::CachingAllocator::Stat count;
  count.current = memory->current_buffers;
  count.peak = memory->peak_buffers;
  count.allocated = memory->total_buffers;
  count.freed = memory->freed_buffers();

  for (auto* array : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                      &stats.requested_bytes}) {
    (*array)[kAll] = bytes;
  }
  for (auto* array : {&stats.allocation, &stats.segment, &stats.active}) (*array)[kAll] = count;
  stats.num_ooms = memory->out_of_memory;
  stats.num_device_alloc = count.allocated;
  stats.num_device_free = count.freed;
  return stats;
}

void TpuAllocator::resetAccumulatedStats(c10::DeviceIndex device) {
  if (runtime::MemoryStats* memory = stats_of(device)) memory->reset_accumulated();
}

void TpuAllocator::resetPeakStats(c10::DeviceIndex device) {
  if (runtime::MemoryStats* memory = stats_of(device)) memory->reset_peak();
}

std::pair<size_t, size_t> TpuAllocator::getMemoryInfo(c10::DeviceIndex device) {
  if (device < 0) device = static_cast<c10::DeviceIndex>(current_device());
  const int64_t total = total_memory(device);
  const runtime::MemoryStats& memory = *stats_of(device);
  int64_t free = total - memory.current_bytes;
  if (memory.limit == INT64_MAX) free = std::min(free, host_pages(_SC_AVPHYS_PAGES));
  return {static_cast<size_t>(std::max<int64_t>(free, 0)), static_cast<size_t>(total)};
}

int64_t total_memory(int device) {
  return translated([&] {
    const int64_t limit = runtime::Runtime::get().device(device).memory().limit;
    return limit == INT64_MAX ? host_pages(_SC_PHYS_PAGES) : limit;
  });
}

c10::Allocator* tpu_allocator() {
  static auto* allocator =
      std::make_unique<TpuAllocator>().release();  // outlives static destruction
  return allocator;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, tpu_allocator())

}  // namespace torch_tpu::eager
