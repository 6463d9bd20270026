#include "pjrt/client.h"

#include <gtest/gtest.h>

#include <thread>

#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using ClientTest = testing::PluginTest;
using testing::contains;
using testing::error_of;
using Floats = std::vector<float>;
TT_TEST_ON_ALL_PLUGINS(ClientTest);

TEST_P(ClientTest, DescribesItsPlatformAndDevices) {
  EXPECT_EQ(client().platform_name(), "cpu");
  EXPECT_FALSE(client().platform_version().empty());
  EXPECT_EQ(client().process_index(), 0);
  ASSERT_EQ(client().devices().size(), 2u);
  EXPECT_EQ(client().global_devices().size(), 2u);
  const Device device = client().devices()[1];
  EXPECT_EQ(device.id(), 1);
  EXPECT_TRUE(device.is_addressable());
  EXPECT_GE(device.local_hardware_id(), 0);
  EXPECT_EQ(device.description().process_index(), 0);
  EXPECT_FALSE(device.kind().empty());
  EXPECT_FALSE(device.debug_string().empty());
  EXPECT_FALSE(device.description().to_string().empty());
  EXPECT_FALSE(memory_kind(client().api(), device.default_memory()).empty());
  EXPECT_FALSE(device.memories().empty());
  EXPECT_NO_THROW(device.memory_stats());
}

TEST_P(ClientTest, BadProgramsAreErrorsWithThePluginsMessage) {
  for (const char* program : {"", "not a module", "module { func.func @main() { bad.op } }"}) {
    const Error error = error_of([&] { compile(program); });
    EXPECT_TRUE(contains(error, "compilation failed: ")) << error.what();
  }
  EXPECT_EQ(error_of([&] { client().compile(testing::kAdd, ""); }).kind(),
            ErrorKind::kInvalidArgument);
}

TEST_P(ClientTest, HostArraysAreCopiedWithTheirStrides) {
  const Floats host = {1, 2, 3, 4, 5, 6};
  const std::vector<int64_t> dims = {3, 2};
  // The transpose of a 2x3 array, then a row repeated.
  for (const auto& [strides, expected] : std::vector<std::pair<std::vector<int64_t>, Floats>>{
           {{}, {1, 2, 3, 4, 5, 6}}, {{4, 12}, {1, 4, 2, 5, 3, 6}}, {{0, 4}, {1, 2, 1, 2, 1, 2}}}) {
    auto [buffer, done] =
        client().buffer_from_host(host.data(), PJRT_Buffer_Type_F32, dims, strides, device());
    done.await();
    EXPECT_EQ(values_of(buffer), expected);
    EXPECT_EQ(std::vector<int64_t>(buffer.dims().begin(), buffer.dims().end()), dims);
  }
}

TEST_P(ClientTest, ZeroCopyBuffersAliasAlignedHostMemory) {
  alignas(64) float host[4] = {1, 2, 3, 4};
  const std::vector<int64_t> dims = {4};
  auto [buffer, done] = client().buffer_from_host(host, PJRT_Buffer_Type_F32, dims, {}, device(),
                                                  HostBufferSemantics::kImmutableZeroCopy);
  buffer.await();
  EXPECT_EQ(buffer.unsafe_pointer(), host);
  EXPECT_FALSE(done.is_ready());
  buffer.reset();
  done.await();
}

TEST_P(ClientTest, EmptyAndScalarArraysWork) {
  const std::vector<int64_t> empty = {0, 3};
  const Buffer nothing =
      client().buffer_from_host(nullptr, PJRT_Buffer_Type_F32, empty, {}, device()).buffer;
  EXPECT_EQ(values_of(nothing), Floats{});
  const float value = 5;
  const Buffer scalar =
      client().buffer_from_host(&value, PJRT_Buffer_Type_F32, {}, {}, device()).buffer;
  EXPECT_EQ(values_of(scalar), Floats{5});
  EXPECT_TRUE(scalar.dims().empty());
}

TEST_P(ClientTest, ArgumentsThatWouldCrashThePluginAreRefused) {
  const float value = 5;
  const std::vector<int64_t> dims = {1};
  const std::vector<int64_t> negative = {-1};
  const auto kind_of = [&](auto action) { return error_of(action).kind(); };
  const auto from_host = [&](const void* data, PJRT_Buffer_Type type,
                             const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides,
                             PJRT_Device* where) {
    return kind_of([&] { client().buffer_from_host(data, type, sizes, strides, where); });
  };
  constexpr auto kF32 = PJRT_Buffer_Type_F32;
  EXPECT_EQ(from_host(&value, PJRT_Buffer_Type_INVALID, dims, {}, device()),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(from_host(&value, kF32, negative, {}, device()), ErrorKind::kInvalidArgument);
  EXPECT_EQ(from_host(&value, kF32, dims, {4, 4}, device()), ErrorKind::kInvalidArgument);
  EXPECT_EQ(from_host(&value, kF32, dims, {}, nullptr), ErrorKind::kInvalidArgument);
  EXPECT_EQ(from_host(nullptr, kF32, dims, {}, device()), ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { client().create_uninitialized(kF32, negative, device()); }),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(kind_of([&] { client().create_uninitialized(kF32, dims, nullptr); }),
            ErrorKind::kInvalidArgument);
}

TEST_P(ClientTest, UninitializedBuffersHaveTheirShapeAndAreReady) {
  ASSERT_TRUE(client().can_create_uninitialized());
  const std::vector<int64_t> dims = {2, 3};
  const Buffer buffer = client().create_uninitialized(PJRT_Buffer_Type_BF16, dims, device(1));
  buffer.await();
  EXPECT_EQ(std::vector<int64_t>(buffer.dims().begin(), buffer.dims().end()), dims);
  EXPECT_EQ(buffer.element_type(), PJRT_Buffer_Type_BF16);
  EXPECT_EQ(buffer.host_size_bytes(), 12u);
  EXPECT_EQ(buffer.device(), device(1));
}

TEST_P(ClientTest, ViewsOfCallersMemoryAreComputedWithAndReportTheirEnd) {
  alignas(64) float host[4] = {1, 2, 3, 4};
  const std::vector<int64_t> dims = {4};
  std::atomic<int> ended = 0;
  {
    const Buffer view = client().create_view_of_device_buffer(host, PJRT_Buffer_Type_F32, dims,
                                                              device(), [&] { ++ended; });
    EXPECT_EQ(view.unsafe_pointer(), host);
    const LoadedExecutable add = compile(testing::kAdd);
    EXPECT_EQ(values_of(run(add, {view.raw(), view.raw()})), (Floats{2, 4, 6, 8}));
  }
  for (int i = 0; i < 1000 && ended == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(ended, 1);
}

TEST_P(ClientTest, UnalignedViewsAreRefusedAndTheirCallbackNeverRuns) {
  alignas(64) float host[8] = {};
  const std::vector<int64_t> dims = {4};
  int ended = 0;
  error_of([&] {
    client().create_view_of_device_buffer(host + 1, PJRT_Buffer_Type_F32, dims, device(),
                                          [&] { ++ended; });
  });
  EXPECT_EQ(ended, 0);
}

TEST_P(ClientTest, SerializedExecutablesLoadAndRun) {
  const LoadedExecutable add = compile(testing::kAdd);
  const std::string bytes = add.serialize();
  EXPECT_FALSE(bytes.empty());
  const LoadedExecutable loaded = client().deserialize(bytes);
  const Buffer a = f32({1, 2, 3, 4});
  EXPECT_EQ(values_of(run(loaded, {a.raw(), a.raw()})), (Floats{2, 4, 6, 8}));
  EXPECT_EQ(loaded.num_outputs(), 1u);
}

TEST_P(ClientTest, GarbageIsNoExecutable) {
  const std::string bytes = compile(testing::kAdd).serialize();
  error_of([&] { client().deserialize("garbage"); });
  error_of([&] { client().deserialize(bytes.substr(0, bytes.size() / 2)); });
}

TEST_P(ClientTest, ManyThreadsCompileAndRunAtOnce) {
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto value = static_cast<float>(t);
      const LoadedExecutable add = compile(testing::kAdd);
      const Buffer a = f32(Floats(4, value));
      for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(values_of(run(add, {a.raw(), a.raw()})), Floats(4, 2 * value));
      }
    });
  }
}

TEST(Client, OptionsOfTheWrongKindAreRefusedWhereThePluginChecks) {
  const std::string path = testing::path_from("TORCH_TPU_TEST_PLUGIN_LAMMPS");
  if (path.empty()) GTEST_SKIP() << "TORCH_TPU_TEST_PLUGIN_LAMMPS is not set";
  const std::vector<NamedValue> options = {{"no_such_option", int64_t{1}}};
  const Error error = error_of([&] { Client::create(Plugin::load(path), options); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_TRUE(contains(error, "no_such_option")) << error.what();
  EXPECT_TRUE(contains(error, path)) << error.what();
}

}  // namespace
}  // namespace torch_tpu::pjrt
