#pragma once

#include <atomic>
#include <string_view>

#include "base/concat.h"

namespace torch_tpu {

enum class LogLevel : int { kOff = 0, kError, kWarning, kInfo, kDebug };

namespace internal {

inline constexpr int kLogLevelUnread = -1;
inline std::atomic<int> log_level{kLogLevelUnread};
int read_log_level();

}  // namespace internal

// The most detailed level that is written; TORCH_TPU_LOG on first use, off by default. A bad value
// there is reported once on stderr and means off.
inline LogLevel log_level() {
  int level = internal::log_level.load(std::memory_order_relaxed);
  if (level == internal::kLogLevelUnread) [[unlikely]]
    level = internal::read_log_level();
  return static_cast<LogLevel>(level);
}
void set_log_level(LogLevel level);
// "off", "error", "warning", "info" or "debug"; Error(kValue) for anything else.
LogLevel parse_log_level(std::string_view name);
std::string_view log_level_name(LogLevel level);

inline bool log_enabled(LogLevel level) { return level <= log_level() && level != LogLevel::kOff; }

// Writes one line to stderr in a single write; threads don't mix.
void write_log(LogLevel level, std::string_view message) noexcept;

}  // namespace torch_tpu

// TT_LOG(kInfo, parts...): parts are evaluated only when the level is on.
#define TT_LOG(level, ...)                                                                    \
  do {                                                                                        \
    if (::torch_tpu::log_enabled(::torch_tpu::LogLevel::level)) [[unlikely]]                  \
      ::torch_tpu::write_log(::torch_tpu::LogLevel::level, ::torch_tpu::concat(__VA_ARGS__)); \
  } while (false)
