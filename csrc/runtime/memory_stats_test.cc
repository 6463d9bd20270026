#include "runtime/memory_stats.h"

#include <gtest/gtest.h>

namespace torch_tpu::runtime {
namespace {

TEST(MemoryStats, PeaksFollowTheHighestPointAndCanBeReset) {
  MemoryStats stats;
  stats.allocated(100);
  stats.allocated(50);
  stats.freed(100);
  EXPECT_EQ(stats.current_bytes, 50);
  EXPECT_EQ(stats.peak_bytes, 150);
  EXPECT_EQ(stats.peak_buffers, 2);
  stats.reset_peak();
  EXPECT_EQ(stats.peak_bytes, 50);
  EXPECT_EQ(stats.peak_buffers, 1);
}

TEST(MemoryStats, TotalsCountFromTheLastReset) {
  MemoryStats stats;
  stats.allocated(100);
  stats.allocated(10);
  stats.freed(100);
  EXPECT_EQ(stats.total_bytes, 110);
  EXPECT_EQ(stats.freed_bytes(), 100);
  EXPECT_EQ(stats.freed_buffers(), 1);
  stats.reset_accumulated();
  EXPECT_EQ(stats.total_bytes, 0);
  EXPECT_EQ(stats.freed_bytes(), 0);
  stats.freed(10);
  EXPECT_EQ(stats.freed_bytes(), 10);
  EXPECT_EQ(stats.current_bytes, 0);
}

}  // namespace
}  // namespace torch_tpu::runtime
