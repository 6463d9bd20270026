#include "eager/pinned_memory.h"

#include <c10/util/Exception.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>

#include "base/byte_size.h"

namespace torch_tpu::eager {
namespace {

size_t page_size() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
    const size_t size = (bytes + page_size() - 1) / page_size() * page_size();
    void* p = std::aligned_alloc(page_size(), size);
    TORCH_CHECK_WITH(OutOfMemoryError, p != nullptr, "pinned memory: cannot allocate ",
                     format_byte_size(static_cast<int64_t>(bytes)));
    // Without the right to lock (RLIMIT_MEMLOCK), pages can move; transfers work all the same.
    const bool locked = mlock(p, size) == 0;
    const std::lock_guard lock(mutex_);
    blocks_.emplace(p, Block{size, locked});
    stats_.allocations.increase(1);
    stats_.active_requests.increase(1);
    stats_.allocated_bytes.increase(size);
    stats_.active_bytes.increase(size);
    ++stats_.num_host_alloc;
    return {p, p, &PinnedAllocator::release, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &PinnedAllocator::release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

  bool contains(const void* pointer) {
    const std::lock_guard lock(mutex_);
    auto it = blocks_.upper_bound(const_cast<void*>(pointer));
    if (it == blocks_.begin()) return false;
    --it;
    return pointer < static_cast<const char*>(it->first) + it->second.size;
  }

  // Transfers are done with host memory when they return, or hold on to it themselves.
  bool record_event(void* pointer, void*, c10::Stream) override { return contains(pointer); }
  void empty_cache() override {}
  at::HostStats get_stats() override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    const std::lock_guard lock(mutex_);
    for (auto* stat : all_stats()) stat->reset_accumulated();
    stats_.num_host_alloc = stats_.num_host_free = 0;
  }
  void reset_peak_stats() override {
    const std::lock_guard lock(mutex_);
    for (auto* stat : all_stats()) stat->reset_peak();
  }

 private:
  struct Block {
    size_t size;
    bool locked;
  };

  static void release(void* pointer);
  void free_block(void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto it = blocks_.find(pointer);
    if (it == blocks_.end()) return;
    const Block block = it->second;
    blocks_.erase(it);
    if (block.locked) munlock(pointer, block.size);
    std::free(pointer);
    stats_.allocations.decrease(1);
    stats_.active_requests.decrease(1);
    stats_.allocated_bytes.decrease(block.size);
    stats_.active_bytes.decrease(block.size);
    ++stats_.num_host_free;
  }
  std::array<c10::CachingAllocator::Stat*, 4> all_stats() {
    return {&stats_.allocations, &stats_.active_requests, &stats_.allocated_bytes,
            &stats_.active_bytes};
  }

  std::mutex mutex_;
  std::map<void*, Block> blocks_;
  at::HostStats stats_;
};

PinnedAllocator& instance() {
  static auto* allocator =
      std::make_unique<PinnedAllocator>().release();  // outlives static destruction
  return *allocator;
}

void PinnedAllocator::release(void* pointer) { instance().free_block(pointer); }

REGISTER_HOST_ALLOCATOR(at::DeviceType::PrivateUse1, &instance())

}  // namespace

at::HostAllocator* pinned_allocator() { return &instance(); }

bool is_pinned(const void* pointer) { return pointer != nullptr && instance().contains(pointer); }

}  // namespace torch_tpu::eager
