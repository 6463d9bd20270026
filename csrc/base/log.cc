#include "base/log.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

#include "base/env.h"
#include "base/error.h"

namespace torch_tpu {
namespace {

constexpr std::string_view kNames[] = {"off", "error", "warning", "info", "debug"};

void write_all(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace

namespace internal {

int read_log_level() {
  LogLevel level = LogLevel::kOff;
  try {
    level = parse_log_level(env<EnvVar::kLog>());
  } catch (const Error& error) {
    write_all(concat("torch_tpu: ", error.what(), "; logging stays off\n"));
  }
  int unread = kLogLevelUnread;
  log_level.compare_exchange_strong(unread, static_cast<int>(level));
  return log_level.load();
}

}  // namespace internal

void set_log_level(LogLevel level) { internal::log_level.store(static_cast<int>(level)); }

LogLevel parse_log_level(std::string_view name) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<LogLevel>(i);
  }
  fail(ErrorKind::kValue, "no log level \"", name,
       "\"; expected off, error, warning, info or debug");
}

std::string_view log_level_name(LogLevel level) { return kNames[static_cast<int>(level)]; }

void write_log(LogLevel level, std::string_view message) noexcept {
  try {
    const auto now = std::chrono::system_clock::now();
    const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
    const auto micros =
        std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count() %
        1000000;
    std::tm local{};
    localtime_r(&seconds, &local);
    char stamp[48];
    std::snprintf(stamp, sizeof stamp, "%02d:%02d:%02d.%06d", local.tm_hour, local.tm_min,
                  local.tm_sec, static_cast<int>(micros));
    write_all(concat("torch_tpu ", stamp, ' ', ::syscall(SYS_gettid), ' ', log_level_name(level),
                     ": ", message, '\n'));
  } catch (...) {
    // No memory for a log line: nothing better to do than to go on without it.
  }
}

}  // namespace torch_tpu
