#include "base/log.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"

namespace torch_tpu {
namespace {

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override { set_log_level(LogLevel::kOff); }
};

TEST_F(LogTest, WritesNothingWhenOff) {
  set_log_level(LogLevel::kOff);
  ::testing::internal::CaptureStderr();
  TT_LOG(kError, "never seen");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(LogTest, WritesLevelsUpToTheOneThatIsSet) {
  set_log_level(LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  TT_LOG(kInfo, "answer ", 42);
  TT_LOG(kDebug, "too detailed");
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("info: answer 42\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("too detailed"), std::string::npos) << text;
}

TEST_F(LogTest, PartsAreEvaluatedOnlyWhenWritten) {
  set_log_level(LogLevel::kWarning);
  int evaluated = 0;
  TT_LOG(kDebug, ++evaluated);
  EXPECT_EQ(evaluated, 0);
}

TEST_F(LogTest, LinesOfThreadsDoNotMix) {
  set_log_level(LogLevel::kError);
  ::testing::internal::CaptureStderr();
  constexpr int kThreads = 8;
  constexpr int kLines = 50;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i)
          TT_LOG(kError, std::string(100, static_cast<char>('a' + t)));
      });
    }
  }
  std::istringstream lines(::testing::internal::GetCapturedStderr());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_GT(line.size(), 100u);
    const std::string tail = line.substr(line.size() - 100);
    EXPECT_EQ(tail, std::string(100, tail[0]));
  }
  EXPECT_EQ(count, kThreads * kLines);
}

TEST_F(LogTest, LevelNamesRoundTripAndOthersAreRefused) {
  for (LogLevel level :
       {LogLevel::kOff, LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
    EXPECT_EQ(parse_log_level(log_level_name(level)), level);
  }
  EXPECT_THROW(parse_log_level("loud"), Error);
}

}  // namespace
}  // namespace torch_tpu
