#include "base/byte_size.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace torch_tpu {
namespace {

constexpr std::string_view kUnits = "KMGTP";
constexpr double kTwoTo63 = 9223372036854775808.0;

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

// The power of 1024 of a unit such as "", "B", "G", "gb" or "GiB".
std::optional<int> unit_power(std::string_view unit) {
  int power = 0;
  if (!unit.empty() && kUnits.find(upper(unit[0])) != std::string_view::npos) {
    power = static_cast<int>(kUnits.find(upper(unit[0]))) + 1;
    unit.remove_prefix(1);
    if (unit.size() == 2 && upper(unit[0]) == 'I')
      unit.remove_prefix(1);
    else if (unit.size() > 1)
      return std::nullopt;
  }
  if (unit.empty() || (unit.size() == 1 && upper(unit[0]) == 'B')) return power;
  return std::nullopt;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

}  // namespace

std::optional<int64_t> parse_byte_size(std::string_view text) {
  text = trim(text);
  const size_t digits_end = text.find_first_not_of("0123456789.");
  const std::string_view number = text.substr(0, digits_end);
  const std::string_view unit =
      digits_end == std::string_view::npos ? std::string_view() : trim(text.substr(digits_end));
  const auto power = unit_power(unit);
  if (!power || number.empty()) return std::nullopt;

  // Whole numbers stay exact above 2^53.
  if (number.find('.') == std::string_view::npos) {
    int64_t value = 0;
    if (std::from_chars(number.data(), number.data() + number.size(), value).ec != std::errc()) {
      return std::nullopt;
    }
    if (__builtin_mul_overflow(value, int64_t{1} << (10 * *power), &value)) return std::nullopt;
    return value;
  }
  double value = 0;
  const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
  if (result.ec != std::errc() || result.ptr != number.data() + number.size()) return std::nullopt;
  value = std::ldexp(value, 10 * *power);
  if (value >= kTwoTo63) return std::nullopt;
  return static_cast<int64_t>(value);
}

std::string format_byte_size(int64_t bytes) {
  static constexpr std::array<const char*, 5> kNames = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  if (std::abs(value) < 1024) return std::to_string(bytes) + " bytes";
  size_t unit = 0;
  value /= 1024;
  // 1023.995 would print as "1024.00".
  while (std::abs(value) >= 1023.995 && unit + 1 < kNames.size()) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  std::snprintf(text, sizeof text, "%.2f %s", value, kNames[unit]);
  return text;
}

}  // namespace torch_tpu
