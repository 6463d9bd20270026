#include "runtime/compile_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace torch_tpu::runtime {
namespace {

TEST(CompileThreads, RunEveryJob) {
  CompileThreads threads(3);
  std::atomic<int> sum{0};
  std::promise<void> done;
  for (int i = 1; i <= 100; ++i) {
    threads.push([&, i] {
      if (sum.fetch_add(i) + i == 5050) done.set_value();
    });
  }
  done.get_future().wait();
  EXPECT_EQ(sum.load(), 5050);
}

TEST(CompileThreads, AnIdleJobWaitsUntilThereIsNothingElse) {
  CompileThreads threads(1);
  std::promise<void> started, go, done;
  std::vector<int> order;
  threads.push([&] {
    started.set_value();
    go.get_future().wait();
  });
  started.get_future().wait();
  threads.push_idle([&] {
    order.push_back(2);
    done.set_value();
  });
  threads.push([&] { order.push_back(0); });
  threads.push([&] { order.push_back(1); });
  go.set_value();
  done.get_future().wait();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(CompileThreads, StopLetsTheRunningJobEndAndForgetsTheOthers) {
  CompileThreads threads(1);
  std::promise<void> started;
  std::atomic<bool> ended{false}, other{false};
  threads.push([&] {
    started.set_value();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ended = true;
  });
  started.get_future().wait();
  threads.push([&] { other = true; });
  threads.stop();
  EXPECT_TRUE(ended.load());
  EXPECT_FALSE(other.load());
  threads.push([&] { other = true; });
  threads.stop();
  EXPECT_FALSE(other.load());
}

}  // namespace
}  // namespace torch_tpu::runtime
