#include "runtime/host_pool.h"

#include <bit>
#include <cstdlib>
#include <new>

namespace torch_tpu::runtime {
namespace {

constexpr size_t kAlignment = 64;

size_t size_class(size_t bytes) { return static_cast<size_t>(std::bit_width(bytes - 1)); }

}  // namespace

HostPool::~HostPool() {
  for (auto& blocks : free_) {
    for (void* block : blocks) std::free(block);
  }
}

void* HostPool::take(size_t bytes) {
  const size_t cls = size_class(bytes);
  {
    std::lock_guard lock(mutex_);
    if (auto& blocks = free_[cls]; !blocks.empty()) {
      void* block = blocks.back();
      blocks.pop_back();
      kept_ -= size_t{1} << cls;
      return block;
    }
  }
  void* block = std::aligned_alloc(kAlignment, size_t{1} << cls);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}

void HostPool::give(void* block, size_t bytes) noexcept {
  const size_t cls = size_class(bytes);
  {
    std::lock_guard lock(mutex_);
    if (kept_ + (size_t{1} << cls) <= kMaxKept) {
      try {
        free_[cls].push_back(block);
        kept_ += size_t{1} << cls;
        return;
      } catch (const std::bad_alloc&) {
      }
    }
  }
  std::free(block);
}

HostPool& HostPool::get() {
  static auto* pool = new HostPool();  // buffers outlive static destruction
  return *pool;
}

}  // namespace torch_tpu::runtime
