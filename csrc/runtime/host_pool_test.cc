#include "runtime/host_pool.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace torch_tpu::runtime {
namespace {

TEST(HostPool, BlocksAreAlignedAndWritable) {
  HostPool pool;
  for (const size_t bytes : {HostPool::kMinBytes, size_t{100'000}, size_t{1} << 20}) {
    void* block = pool.take(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    std::memset(block, 1, bytes);
    pool.give(block, bytes);
  }
}

TEST(HostPool, ABlockGivenBackIsUsedAgainForItsSizeClassOnly) {
  HostPool pool;
  void* block = pool.take(100'000);
  pool.give(block, 100'000);
  void* larger = pool.take(200'000);
  EXPECT_NE(larger, block);
  void* again = pool.take(131'072);
  EXPECT_EQ(again, block);
  void* fresh = pool.take(100'000);
  EXPECT_NE(fresh, block);
  for (void* b : {again, fresh}) pool.give(b, 100'000);
  pool.give(larger, 200'000);
}

TEST(HostPool, WhatItKeepsIsBounded) {
  HostPool pool;
  void* huge = pool.take(size_t{300} << 20);
  pool.give(huge, size_t{300} << 20);  // freed: AddressSanitizer would tell a leak
}

}  // namespace
}  // namespace torch_tpu::runtime
