#include "runtime/launch_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <thread>
#include <vector>

#include "runtime/program.h"
#include "runtime/runtime.h"

namespace torch_tpu::runtime {
namespace {

constexpr char kDouble[] = R"(module {
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = stablehlo.add %x, %x : tensor<4xf32>
    return %y : tensor<4xf32>
  }
})";

class LaunchQueueTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("TORCH_TPU_TIER2_COMPILATION_CACHE", "disabled", 1);  // nothing of the user's
    Runtime::set_plugin_resolver(
        [] { return PluginChoice{std::getenv("TORCH_TPU_TEST_PLUGIN_XLA"), true, ""}; });
  }
  static void TearDownTestSuite() { Runtime::shut_down(); }

  LaunchQueueTest() : device(Runtime::get().device(0)), queue(device.queue()) {}

  BufferRef upload(std::vector<float> values) {
    return Runtime::get().to_device(values.data(), type, device);
  }
  BufferRef pending() { return std::make_shared<Buffer>(type, device, intern_origin("test")); }
  uint64_t push(const char* text, BufferRef input, const BufferRef& output) {
    Launch launch;
    launch.program = compile({text, "test", Effort::kEager, false});
    launch.inputs.push_back(std::move(input));
    launch.outputs.push_back(output);
    launch.origin = intern_origin("test");
    return queue.push(launch, [] {});
  }
  float first(const BufferRef& buffer) {
    float values[4];
    Runtime::get().to_host(*buffer, values);
    return values[0];
  }

  const TensorType* type = intern_type({DType::kF32, {4}});
  Device& device;
  LaunchQueue& queue;
};

TEST_F(LaunchQueueTest, ALaunchReadsWhatAnEarlierOneIsYetToMake) {
  const BufferRef a = upload({1, 2, 3, 4});
  const BufferRef b = pending(), c = pending();
  push(kDouble, a, b);
  push(kDouble, b, c);
  EXPECT_EQ(first(c), 4);
  EXPECT_EQ(first(b), 2);
}

TEST_F(LaunchQueueTest, AProgramThatDoesNotCompileFailsItsOutputsAndTheirReadersOnly) {
  const BufferRef a = upload({1, 2, 3, 4});
  const BufferRef bad = pending(), worse = pending(), good = pending();
  push("nonsense", a, bad);
  push(kDouble, bad, worse);
  push(kDouble, a, good);
  EXPECT_EQ(first(good), 2);
  EXPECT_THROW(bad->await(), Error);
  EXPECT_THROW(worse->await(), Error);
}

TEST_F(LaunchQueueTest, AnActionThatThrowsDoesNotStopTheQueue) {
  queue.push_action([] { throw std::runtime_error("an action's"); });
  std::atomic<bool> ran{false};
  queue.wait(queue.push_action([&] { ran = true; }));
  EXPECT_TRUE(ran.load());
}

TEST_F(LaunchQueueTest, ActionsOfSeveralThreadsRunOnceAndInTheOrderOfEach) {
  std::vector<std::vector<int>> seen(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < seen.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const uint64_t ticket = queue.push_action([&, t, i] { seen[t].push_back(i); });
        if (i % 97 == 0) queue.wait(ticket);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  queue.drain();
  for (const auto& s : seen) {
    ASSERT_EQ(s.size(), 2000u);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(s[static_cast<size_t>(i)], i);
  }
}

TEST_F(LaunchQueueTest, PushingWaitsWhenTheQueueIsFull) {
  queue.drain();
  std::promise<void> begun, go;
  auto released = go.get_future().share();
  queue.push_action([&] {
    begun.set_value();
    released.wait();
  });
  begun.get_future().wait();
  std::atomic<int> pushed{0};
  std::thread pusher([&] {
    for (int i = 0; i < 6000; ++i) {
      queue.push_action([] {});
      ++pushed;
    }
  });
  int before = -1;
  while (pushed.load() != before) {  // until it stands still
    before = pushed.load();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_GT(before, 0);
  EXPECT_LT(before, 6000);
  go.set_value();
  pusher.join();
  queue.drain();
  EXPECT_EQ(pushed.load(), 6000);
  EXPECT_TRUE(queue.idle());
}

}  // namespace
}  // namespace torch_tpu::runtime
