#include "base/env.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"

namespace torch_tpu {
namespace {

constexpr std::array<std::string_view, 4> kTrueWords = {"1", "true", "on", "yes"};
constexpr std::array<std::string_view, 4> kFalseWords = {"0", "false", "off", "no"};

std::string_view from_environment(EnvVar var) {
  // Names in the table are literals, hence end with a zero.
  const char* text = std::getenv(env_info(var).name.data());
  return text == nullptr ? std::string_view() : std::string_view(text);
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return result;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int64_t> parse_integer(std::string_view text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (text.empty() || result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

struct Range {
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
};

Range integer_range(const EnvVarInfo& info) {
  Range range;
  const size_t dots = info.accepts.find("..");
  if (dots == std::string_view::npos) return range;
  if (auto min = parse_integer(info.accepts.substr(0, dots))) range.min = *min;
  if (auto max = parse_integer(info.accepts.substr(dots + 2))) range.max = *max;
  return range;
}

[[noreturn]] void reject(EnvVar var, std::string_view text) {
  fail(ErrorKind::kValue, env_info(var).name, "=\"", text, "\" is not accepted; expected ",
       env_accepted_values(var));
}

}  // namespace

std::string_view env_kind_name(EnvKind kind) {
  switch (kind) {
    case EnvKind::kFlag:
      return "flag";
    case EnvKind::kInteger:
      return "integer";
    case EnvKind::kBytes:
      return "bytes";
    case EnvKind::kString:
      return "string";
    case EnvKind::kPath:
      return "path";
    case EnvKind::kChoice:
      return "choice";
  }
  return "unknown";
}

std::string env_accepted_values(EnvVar var) {
  const EnvVarInfo& info = env_info(var);
  switch (info.kind) {
    case EnvKind::kFlag:
      return "1, true, on, yes, 0, false, off or no";
    case EnvKind::kInteger:
      return info.accepts.empty() ? "an integer" : concat("an integer in ", info.accepts);
    case EnvKind::kBytes:
      return "a number of bytes such as 1048576, 512M, 2G or 1.5GiB";
    case EnvKind::kString:
      return "any text";
    case EnvKind::kPath:
      return "a path";
    case EnvKind::kChoice: {
      std::string words;
      const auto choices = split(info.accepts, '|');
      for (size_t i = 0; i < choices.size(); ++i) {
        if (i > 0) words += i + 1 == choices.size() ? " or " : ", ";
        words += choices[i];
      }
      return words;
    }
  }
  return "";
}

bool env_is_set(EnvVar var) { return !from_environment(var).empty(); }

std::string env_text(EnvVar var) {
  const std::string_view text = from_environment(var);
  return std::string(text.empty() ? env_info(var).default_value : text);
}

void check_environment() {
  for (const EnvVarInfo& info : kEnvVars) {
    if (!env_is_set(info.var)) continue;
    const std::string text = env_text(info.var);
    switch (info.kind) {
      case EnvKind::kFlag:
        internal::parse_env_flag(info.var, text);
        break;
      case EnvKind::kInteger:
        internal::parse_env_integer(info.var, text);
        break;
      case EnvKind::kBytes:
        internal::parse_env_bytes(info.var, text);
        break;
      case EnvKind::kChoice:
        internal::parse_env_choice(info.var, text);
        break;
      case EnvKind::kString:
      case EnvKind::kPath:
        break;
    }
  }
}

namespace internal {

bool parse_env_flag(EnvVar var, std::string_view text) {
  const std::string word = lower(text);
  if (std::ranges::find(kTrueWords, word) != kTrueWords.end()) return true;
  if (std::ranges::find(kFalseWords, word) != kFalseWords.end()) return false;
  reject(var, text);
}

int64_t parse_env_integer(EnvVar var, std::string_view text) {
  const Range range = integer_range(env_info(var));
  const auto value = parse_integer(text);
  if (!value || *value < range.min || *value > range.max) reject(var, text);
  return *value;
}

int64_t parse_env_bytes(EnvVar var, std::string_view text) {
  const auto value = parse_byte_size(text);
  if (!value) reject(var, text);
  return *value;
}

std::string parse_env_choice(EnvVar var, std::string_view text) {
  const std::string word = lower(text);
  const auto choices = split(env_info(var).accepts, '|');
  if (std::ranges::find(choices, word) == choices.end()) reject(var, text);
  return word;
}

}  // namespace internal
}  // namespace torch_tpu
