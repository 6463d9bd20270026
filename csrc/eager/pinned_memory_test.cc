#include "eager/pinned_memory.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace torch_tpu::eager {
namespace {

TEST(PinnedMemory, IsPageAlignedAndKnownByEveryAddressInIt) {
  c10::DataPtr block = pinned_allocator()->allocate(1000);
  const auto* bytes = static_cast<const char*>(block.get());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes) % 4096, 0u);
  EXPECT_TRUE(is_pinned(bytes));
  EXPECT_TRUE(is_pinned(bytes + 999));
  EXPECT_FALSE(is_pinned(bytes - 1));
  EXPECT_EQ(pinned_allocator()->get_stats().allocations.current, 1);
  block.clear();
  EXPECT_FALSE(is_pinned(bytes));
  EXPECT_EQ(pinned_allocator()->get_stats().allocations.current, 0);
}

TEST(PinnedMemory, NothingIsNotPinned) {
  EXPECT_EQ(pinned_allocator()->allocate(0).get(), nullptr);
  EXPECT_FALSE(is_pinned(nullptr));
}

}  // namespace
}  // namespace torch_tpu::eager
