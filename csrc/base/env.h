#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace torch_tpu {

// Every environment variable that is read anywhere has a line in env_vars.def.
enum class EnvVar {
#define TT_ENV(id, name, kind, default_value, accepts, stage, doc) k##id,
#include "base/env_vars.def"
#undef TT_ENV
};

enum class EnvKind { kFlag, kInteger, kBytes, kString, kPath, kChoice };

struct EnvVarInfo {
  EnvVar var;
  std::string_view name;
  EnvKind kind;
  std::string_view default_value;
  std::string_view accepts;
  std::string_view stage;
  std::string_view doc;
};

inline constexpr EnvVarInfo kEnvVars[] = {
#define TT_ENV(id, name, kind, default_value, accepts, stage, doc) \
  {EnvVar::k##id, name, EnvKind::k##kind, default_value, accepts, stage, doc},
#include "base/env_vars.def"
#undef TT_ENV
};

constexpr const EnvVarInfo& env_info(EnvVar var) { return kEnvVars[static_cast<int>(var)]; }

// The whole table, for documentation and Python.
inline std::span<const EnvVarInfo> env_table() { return kEnvVars; }

// "flag", "integer", ...
std::string_view env_kind_name(EnvKind kind);
// "1, 0, true, false, on, off, yes or no": the text that errors and documentation use.
std::string env_accepted_values(EnvVar var);

// Set and not empty.
bool env_is_set(EnvVar var);
// The text in the environment, else the default; never validated.
std::string env_text(EnvVar var);
// Reads every variable that is set; throws Error(kValue) at the first bad one.
void check_environment();

namespace internal {

bool parse_env_flag(EnvVar var, std::string_view text);
int64_t parse_env_integer(EnvVar var, std::string_view text);
int64_t parse_env_bytes(EnvVar var, std::string_view text);
std::string parse_env_choice(EnvVar var, std::string_view text);

}  // namespace internal

// The variable's value in the type its kind implies: bool, int64_t (integer and bytes) or
// std::string; optional for flags and numbers without a default. Reads the environment at each
// call: keep the value where speed matters.
// Throws Error(kValue) naming the variable, its value and what is accepted.
template <EnvVar kVar>
auto env() {
  constexpr const EnvVarInfo& info = env_info(kVar);
  const std::string text = env_text(kVar);
  const auto optional_if_no_default = [&](auto parse) {
    using Value = decltype(parse(kVar, std::string_view()));
    if constexpr (info.default_value.empty()) {
      return text.empty() ? std::optional<Value>() : std::optional<Value>(parse(kVar, text));
    } else {
      return parse(kVar, text);
    }
  };
  if constexpr (info.kind == EnvKind::kFlag) {
    return optional_if_no_default(internal::parse_env_flag);
  } else if constexpr (info.kind == EnvKind::kInteger) {
    return optional_if_no_default(internal::parse_env_integer);
  } else if constexpr (info.kind == EnvKind::kBytes) {
    return optional_if_no_default(internal::parse_env_bytes);
  } else if constexpr (info.kind == EnvKind::kChoice) {
    return internal::parse_env_choice(kVar, text);
  } else {
    return text;
  }
}

}  // namespace torch_tpu
