#include "pjrt/plugin.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/hash.h"
#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using PluginLoadTest = testing::PluginTest;
using testing::contains;
using testing::error_of;
TT_TEST_ON_ALL_PLUGINS(PluginLoadTest);

TEST_P(PluginLoadTest, LoadingTwiceGivesTheSamePlugin) {
  const auto relative = std::filesystem::proximate(path()).string();
  EXPECT_EQ(Plugin::load(path()), Plugin::load(path()));
  EXPECT_EQ(Plugin::load(path()), Plugin::load(relative));
}

TEST_P(PluginLoadTest, LoadingFromManyThreadsGivesOnePlugin) {
  std::array<std::shared_ptr<Plugin>, 4> plugins;
  {
    std::vector<std::jthread> threads;
    for (auto& plugin : plugins) threads.emplace_back([&] { plugin = Plugin::load(path()); });
  }
  for (const auto& plugin : plugins) EXPECT_EQ(plugin, plugins[0]);
}

TEST_P(PluginLoadTest, TellsItsVersions) {
  const auto plugin = Plugin::load(path());
  EXPECT_GE(plugin->api_version(), (ApiVersion{0, 81}));
  EXPECT_EQ(plugin->xla_version(), 2);
  EXPECT_EQ(plugin->stablehlo_minimum_version(), (std::array<int64_t, 3>{0, 9, 0}));
  EXPECT_GE(plugin->stablehlo_current_version().value(), (std::array<int64_t, 3>{1, 13, 0}));
  EXPECT_EQ(plugin->find_attribute("no such attribute"), nullptr);
}

TEST_P(PluginLoadTest, ListsItsExtensions) {
  const auto plugin = Plugin::load(path());
  EXPECT_NE(plugin->find_extension(PJRT_Extension_Type_FFI), nullptr);
  EXPECT_NE(plugin->find_extension(PJRT_Extension_Type_Layouts), nullptr);
  EXPECT_EQ(plugin->find_extension(9999), nullptr);
  EXPECT_FALSE(plugin->extensions().empty());
}

TEST_P(PluginLoadTest, HashesItsFile) {
  const std::string hash = Plugin::load(path())->sha256();
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(hash, sha256_hex_of_file(path()));
}

TEST_P(PluginLoadTest, SlotsPastTheStructOrNullAreMissing) {
  PJRT_Api api = *Plugin::load(path())->api();
  EXPECT_TRUE(TT_PJRT_HAS(&api, PJRT_Client_CreateUninitializedBuffer));
  PJRT_Api without = api;
  without.PJRT_Client_CreateUninitializedBuffer = nullptr;
  EXPECT_FALSE(TT_PJRT_HAS(&without, PJRT_Client_CreateUninitializedBuffer));
  api.struct_size = offsetof(PJRT_Api, PJRT_Client_CreateUninitializedBuffer);
  EXPECT_FALSE(TT_PJRT_HAS(&api, PJRT_Client_CreateUninitializedBuffer));
  EXPECT_TRUE(TT_PJRT_HAS(&api, PJRT_Client_DmaUnmap));
  const Error error =
      error_of([&] { TT_PJRT_REQUIRE(&api, PJRT_Client_CreateUninitializedBuffer); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotImplemented);
  EXPECT_TRUE(contains(error, "PJRT_Client_CreateUninitializedBuffer")) << error.what();
}

// The plugin of testing/aborting_plugin.cc in its harmless modes.
class OddPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::path_from("TORCH_TPU_TEST_ABORTING_PLUGIN");
    if (path_.empty()) GTEST_SKIP() << "TORCH_TPU_TEST_ABORTING_PLUGIN is not set";
  }
  void TearDown() override { ::unsetenv("ABORTING_PLUGIN_MODE"); }

  Error error_in_mode(const char* mode) {
    ::setenv("ABORTING_PLUGIN_MODE", mode, 1);
    return error_of([this] { Plugin::load(path_); });
  }

 private:
  std::string path_;
};

TEST_F(OddPluginTest, APluginWithoutApiIsRefused) {
  const Error error = error_in_mode("null");
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(contains(error, "gave no API")) << error.what();
}

TEST_F(OddPluginTest, APluginWithATooSmallApiIsRefused) {
  const Error error = error_in_mode("old");
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(contains(error, "too old")) << error.what();
}

TEST_F(OddPluginTest, APluginOfAnotherMajorVersionIsRefused) {
  const Error error = error_in_mode("major");
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(contains(error, "API version 1.0")) << error.what();
}

TEST_F(OddPluginTest, APluginWithoutBasicFunctionsIsRefused) {
  const Error error = error_in_mode("empty");
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(contains(error, "basic function")) << error.what();
}

}  // namespace
}  // namespace torch_tpu::pjrt
