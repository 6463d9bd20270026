#include "pjrt/buffer.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "pjrt/buffer_type.h"
#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using BufferTest = testing::PluginTest;
using testing::error_of;
using Floats = std::vector<float>;
TT_TEST_ON_ALL_PLUGINS(BufferTest);

// Large enough to run on the plugin's thread pool.
constexpr std::string_view kSlow = R"(
module {
  func.func public @main(%a: tensor<512x512xf32>) -> tensor<512x512xf32> {
    %0 = stablehlo.dot_general %a, %a, contracting_dims = [1] x [0]
        : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    %1 = stablehlo.dot_general %0, %a, contracting_dims = [1] x [0]
        : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
    return %1 : tensor<512x512xf32>
  }
})";

TEST_P(BufferTest, DescribesItself) {
  const Buffer buffer = f32({1, 2, 3, 4}, 1);
  EXPECT_EQ(buffer.dims().size(), 1u);
  EXPECT_EQ(buffer.unpadded_dims()[0], 4);
  EXPECT_EQ(buffer.element_type(), PJRT_Buffer_Type_F32);
  EXPECT_EQ(buffer.size_bytes(), 16u);
  EXPECT_EQ(buffer.host_size_bytes(), 16u);
  EXPECT_TRUE(buffer.is_on_cpu());
  EXPECT_EQ(buffer.device(), device(1));
  EXPECT_NE(buffer.memory(), nullptr);
  EXPECT_FALSE(buffer.is_deleted());
}

TEST_P(BufferTest, ThePointerShowsTheContentsOnceReady) {
  const Buffer buffer = f32({1, 2, 3, 4});
  buffer.await();
  const auto* values = static_cast<const float*>(buffer.unsafe_pointer());
  EXPECT_EQ(Floats(values, values + 4), (Floats{1, 2, 3, 4}));
}

TEST_P(BufferTest, DeletedContentsAreAnErrorOnUse) {
  Buffer buffer = f32({1, 2, 3, 4});
  buffer.delete_contents();
  EXPECT_TRUE(buffer.is_deleted());
  Floats host(4);
  error_of([&] { buffer.to_host(host.data(), 16).await(); });
  error_of([&] { buffer.await(); });
}

TEST_P(BufferTest, ATooSmallHostArrayIsAnError) {
  const Buffer buffer = f32({1, 2, 3, 4});
  Floats host(4);
  error_of([&] { buffer.to_host(host.data(), 8).await(); });
  error_of([&] { buffer.to_host(nullptr, 16).await(); });
}

TEST_P(BufferTest, CopiesToAnotherDevice) {
  const Buffer buffer = f32({1, 2, 3, 4}, 0);
  const Buffer copy = buffer.copy_to_device(device(1));
  EXPECT_EQ(copy.device(), device(1));
  EXPECT_EQ(values_of(copy), (Floats{1, 2, 3, 4}));
}

TEST_P(BufferTest, RawCopiesTakeAPart) {
  const Buffer buffer = f32({1, 2, 3, 4});
  Floats host(2);
  buffer.copy_raw_to_host(host.data(), 4, 8).await();
  EXPECT_EQ(host, (Floats{2, 3}));
}

TEST_P(BufferTest, MovingAndReleasingKeepOneOwner) {
  Buffer first = f32({1, 2, 3, 4});
  PJRT_Buffer* raw = first.raw();
  Buffer second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.raw(), raw);
  first = std::move(second);
  EXPECT_EQ(first.release(), raw);
  EXPECT_FALSE(first);
  const Buffer adopted(client().api(), raw);
  EXPECT_EQ(values_of(adopted), (Floats{1, 2, 3, 4}));
}

TEST_P(BufferTest, EventsTellWhenWorkIsDone) {
  const LoadedExecutable slow = compile(kSlow);
  const std::vector<int64_t> dims = {512, 512};
  const Floats ones(512 * 512, 1);
  const Buffer a =
      client().buffer_from_host(ones.data(), PJRT_Buffer_Type_F32, dims, {}, device()).buffer;
  const Buffer result = run(slow, {a.raw()});
  std::mutex mutex;
  std::condition_variable changed;
  bool called = false;
  bool failed = false;
  {
    const Event ready = result.ready_event();
    ready.on_ready([&](const Error* failure) {
      const std::lock_guard lock(mutex);
      called = true;
      failed = failure != nullptr;
      changed.notify_all();
    });
  }
  result.await();
  EXPECT_TRUE(result.is_ready());
  EXPECT_EQ(result.ready_event().error(), std::nullopt);
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return called; }));
  EXPECT_FALSE(failed);
  EXPECT_EQ(static_cast<const float*>(result.unsafe_pointer())[7], 512 * 512);
}

TEST_P(BufferTest, FailedEventsCarryTheirError) {
  Buffer buffer = f32({1, 2, 3, 4});
  buffer.delete_contents();
  Floats host(4);
  const Event event = buffer.to_host(host.data(), 16);
  error_of([&] { event.await(); });
  EXPECT_TRUE(event.error().has_value());
  std::optional<Error> seen;
  event.on_ready([&](const Error* failure) {
    if (failure != nullptr) seen = *failure;
  });
  EXPECT_TRUE(seen.has_value());
}

TEST_P(BufferTest, WhatACallbackThrowsIsDropped) {
  const Buffer buffer = f32({1});
  buffer.await();
  buffer.ready_event().on_ready([](const Error*) { fail(ErrorKind::kInternal, "on purpose"); });
}

TEST(Event, AnEmptyOneIsReady) {
  const Event event;
  EXPECT_FALSE(event);
  EXPECT_TRUE(event.is_ready());
  EXPECT_NO_THROW(event.await());
  EXPECT_EQ(event.error(), std::nullopt);
  int calls = 0;
  event.on_ready([&](const Error* failure) { calls += failure == nullptr ? 1 : 100; });
  EXPECT_EQ(calls, 1);
}

TEST(BufferType, KnowsNamesAndSizes) {
  EXPECT_EQ(buffer_type_name(PJRT_Buffer_Type_BF16), "bf16");
  EXPECT_EQ(buffer_type_name(static_cast<PJRT_Buffer_Type>(31)), "unknown");
  EXPECT_EQ(bits_per_element(PJRT_Buffer_Type_C128), 128);
  EXPECT_EQ(bits_per_element(PJRT_Buffer_Type_S4), 4);
  EXPECT_EQ(bits_per_element(PJRT_Buffer_Type_TOKEN), 0);
  const std::vector<int64_t> dims = {3, 5};
  EXPECT_EQ(dense_host_bytes(PJRT_Buffer_Type_BF16, dims), 30);
  EXPECT_EQ(dense_host_bytes(PJRT_Buffer_Type_S4, dims), 15);
  EXPECT_EQ(dense_host_bytes(PJRT_Buffer_Type_F64, {}), 8);
}

}  // namespace
}  // namespace torch_tpu::pjrt
