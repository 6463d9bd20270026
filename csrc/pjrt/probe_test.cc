#include "pjrt/probe.h"

#include <gtest/gtest.h>

#include <csignal>

#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using testing::contains;
using testing::error_of;

std::string probe_executable() { return testing::path_from("TORCH_TPU_TEST_PROBE"); }

class ProbeTest : public testing::PluginTest {
 protected:
  void SetUp() override {
    if (probe_executable().empty()) GTEST_SKIP() << "TORCH_TPU_TEST_PROBE is not set";
    PluginTest::SetUp();
  }
};
TT_TEST_ON_ALL_PLUGINS(ProbeTest);

TEST_P(ProbeTest, AWorkingPluginIsReported) {
  const std::string report = probe_plugin(probe_executable(), path(), testing::two_devices());
  EXPECT_NE(report.find("\"platform\": \"cpu\""), std::string::npos) << report;
  EXPECT_NE(report.find("\"num_devices\": 2"), std::string::npos) << report;
  EXPECT_TRUE(report.ends_with("}")) << report;
}

TEST(Probe, AnOptionThatThePluginCanNotTakeIsAFailure) {
  const std::string path = testing::path_from("TORCH_TPU_TEST_PLUGIN_XLA");
  if (probe_executable().empty() || path.empty()) GTEST_SKIP() << "probe or plugin not set";
  const std::vector<NamedValue> wrong = {{"cpu_device_count", std::string("two")}};
  const ProbeResult result = run_probe(probe_executable(), path, wrong);
  EXPECT_FALSE(result.ok);
  EXPECT_TRUE(result.exit_code == 2 || result.signal == SIGABRT) << result.failure();
}

class BrokenPluginTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::path_from("TORCH_TPU_TEST_ABORTING_PLUGIN");
    if (path_.empty() || probe_executable().empty()) {
      GTEST_SKIP() << "TORCH_TPU_TEST_ABORTING_PLUGIN or TORCH_TPU_TEST_PROBE is not set";
    }
  }
  void TearDown() override { ::unsetenv("ABORTING_PLUGIN_MODE"); }

  Error error_in_mode(const char* mode,
                      std::chrono::milliseconds timeout = std::chrono::seconds(60)) {
    ::setenv("ABORTING_PLUGIN_MODE", mode, 1);
    const Error error = error_of([&] { probe_plugin(probe_executable(), path_, {}, timeout); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_TRUE(contains(error, path_)) << error.what();
    return error;
  }

 private:
  std::string path_;
};

TEST_F(BrokenPluginTest, AnAbortIsAnErrorWithItsLastWords) {
  const Error error = error_in_mode("abort");
  EXPECT_TRUE(contains(error, "killed by signal 6")) << error.what();
  EXPECT_TRUE(contains(error, "the aborting plugin aborts")) << error.what();
}

TEST_F(BrokenPluginTest, ACrashIsAnError) {
  const Error error = error_in_mode("segfault");
  EXPECT_TRUE(contains(error, "signal 11") || contains(error, "exit code")) << error.what();
}

TEST_F(BrokenPluginTest, AnExitIsAnError) {
  EXPECT_TRUE(contains(error_in_mode("exit"), "exit code 7"));
}

TEST_F(BrokenPluginTest, AHangEndsWithTheTime) {
  const auto start = std::chrono::steady_clock::now();
  const Error error = error_in_mode("hang", std::chrono::milliseconds(500));
  EXPECT_TRUE(contains(error, "no answer within")) << error.what();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST_F(BrokenPluginTest, ARefusalKeepsItsReason) {
  EXPECT_TRUE(contains(error_in_mode("null"), "gave no API"));
}

TEST(Probe, AMissingProbeIsAnError) {
  const Error error = error_of([] { probe_plugin("/no/such/probe", "/no/such/plugin.so"); });
  EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
  EXPECT_TRUE(contains(error, "/no/such/probe")) << error.what();
}

}  // namespace
}  // namespace torch_tpu::pjrt
