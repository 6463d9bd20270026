#include "eager/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

namespace torch_tpu::eager {
namespace {

TEST(Generator, ReservingMovesTheOffsetAndGivesTheStateBefore) {
  at::Generator g = make_generator(0);
  g.set_current_seed(7);
  const RandomState first = reserve_random(g, 0, 5);
  const RandomState second = reserve_random(g, 0, 1);
  EXPECT_EQ(first.seed, 7u);
  EXPECT_EQ(first.offset, 0u);
  EXPECT_EQ(second.offset, 5u);
  g.set_current_seed(7);
  EXPECT_EQ(reserve_random(g, 0, 1).offset, 0u);
}

TEST(Generator, NoTwoThreadsGetTheSameBlock) {
  at::Generator g = make_generator(0);
  std::vector<std::vector<uint64_t>> offsets(4);
  {
    std::vector<std::jthread> threads;
    for (auto& mine : offsets) {
      threads.emplace_back([&] {
        for (int i = 0; i < 1000; ++i) mine.push_back(reserve_random(g, 0, 1).offset);
      });
    }
  }
  std::vector<uint64_t> all;
  for (const auto& mine : offsets) all.insert(all.end(), mine.begin(), mine.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
}

TEST(Generator, OtherDevicesGeneratorsAreRefused) {
  EXPECT_THROW(reserve_random(make_generator(0), 1, 1), c10::Error);
  EXPECT_THROW(make_generator(99), c10::Error);
}

}  // namespace
}  // namespace torch_tpu::eager
