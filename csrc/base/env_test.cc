#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <type_traits>

#include "base/error.h"

namespace torch_tpu {
namespace {

// Sets a variable for the length of a test.
class ScopedEnv {
 public:
  ScopedEnv(EnvVar var, const char* value) : name_(env_info(var).name) {
    if (const char* old = std::getenv(name_.c_str())) old_ = old;
    if (value == nullptr)
      ::unsetenv(name_.c_str());
    else
      ::setenv(name_.c_str(), value, 1);
  }
  ~ScopedEnv() {
    if (old_)
      ::setenv(name_.c_str(), old_->c_str(), 1);
    else
      ::unsetenv(name_.c_str());
  }

 private:
  std::string name_;
  std::optional<std::string> old_;
};

template <typename Action>
std::string value_error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kValue);
    return error.what();
  }
  return "no error";
}

TEST(Env, UnsetAndEmptyVariablesHaveTheirDefault) {
  for (const char* value : {static_cast<const char*>(nullptr), ""}) {
    const ScopedEnv devices(EnvVar::kCpuDevices, value);
    const ScopedEnv probe(EnvVar::kPluginProbe, value);
    const ScopedEnv limit(EnvVar::kMemoryLimit, value);
    const ScopedEnv checks(EnvVar::kEnableDebugChecks, value);
    const ScopedEnv fallback(EnvVar::kFallback, value);
    EXPECT_EQ(env<EnvVar::kCpuDevices>(), 1);
    EXPECT_TRUE(env<EnvVar::kPluginProbe>());
    EXPECT_EQ(env<EnvVar::kMemoryLimit>(), std::nullopt);
    EXPECT_EQ(env<EnvVar::kEnableDebugChecks>(), std::nullopt);
    EXPECT_EQ(env<EnvVar::kFallback>(), "warn");
    EXPECT_FALSE(env_is_set(EnvVar::kFallback));
  }
}

TEST(Env, ValuesAreReadInTheTypeOfTheirKind) {
  static_assert(std::is_same_v<decltype(env<EnvVar::kEmulateMxu>()), bool>);
  static_assert(std::is_same_v<decltype(env<EnvVar::kCpuDevices>()), int64_t>);
  static_assert(std::is_same_v<decltype(env<EnvVar::kMemoryLimit>()), std::optional<int64_t>>);
  static_assert(std::is_same_v<decltype(env<EnvVar::kPjrtPlugin>()), std::string>);
  const ScopedEnv devices(EnvVar::kCpuDevices, "4");
  const ScopedEnv limit(EnvVar::kMemoryLimit, "1.5GiB");
  const ScopedEnv plugin(EnvVar::kPjrtPlugin, "/some/where.so");
  const ScopedEnv fallback(EnvVar::kFallback, "Error");
  EXPECT_EQ(env<EnvVar::kCpuDevices>(), 4);
  EXPECT_EQ(env<EnvVar::kMemoryLimit>(), int64_t{3} << 29);
  EXPECT_EQ(env<EnvVar::kPjrtPlugin>(), "/some/where.so");
  EXPECT_EQ(env<EnvVar::kFallback>(), "error");
}

TEST(Env, FlagsAcceptTheUsualWords) {
  for (const char* word : {"1", "true", "ON", "yes"}) {
    const ScopedEnv flag(EnvVar::kEmulateMxu, word);
    EXPECT_TRUE(env<EnvVar::kEmulateMxu>()) << word;
  }
  for (const char* word : {"0", "False", "off", "no"}) {
    const ScopedEnv flag(EnvVar::kPluginProbe, word);
    EXPECT_FALSE(env<EnvVar::kPluginProbe>()) << word;
  }
}

TEST(Env, BadValuesNameTheVariableTheValueAndWhatIsAccepted) {
  {
    const ScopedEnv flag(EnvVar::kEmulateMxu, "maybe");
    EXPECT_EQ(value_error_of([] { env<EnvVar::kEmulateMxu>(); }),
              "TORCH_TPU_EMULATE_MXU=\"maybe\" is not accepted; expected 1, true, on, yes, 0, "
              "false, off or no");
  }
  {
    const ScopedEnv fallback(EnvVar::kFallback, "loud");
    EXPECT_EQ(value_error_of([] { env<EnvVar::kFallback>(); }),
              "TORCH_TPU_FALLBACK=\"loud\" is not accepted; expected warn, error or silent");
  }
  for (const char* devices : {"0", "-1", "1025", "two", "4x", "99999999999999999999"}) {
    const ScopedEnv count(EnvVar::kCpuDevices, devices);
    EXPECT_EQ(value_error_of([] { env<EnvVar::kCpuDevices>(); }),
              concat("TORCH_TPU_CPU_DEVICES=\"", devices,
                     "\" is not accepted; expected an integer in 1..1024"));
  }
  const ScopedEnv limit(EnvVar::kMemoryLimit, "-2G");
  EXPECT_NE(value_error_of([] { env<EnvVar::kMemoryLimit>(); }).find("512M, 2G or 1.5GiB"),
            std::string::npos);
}

TEST(Env, CheckingTheEnvironmentFindsABadVariable) {
  EXPECT_NO_THROW(check_environment());
  const ScopedEnv count(EnvVar::kCpuDevices, "none");
  EXPECT_THROW(check_environment(), Error);
}

TEST(Env, TheTableIsConsistent) {
  std::set<std::string_view> names;
  for (const EnvVarInfo& info : env_table()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(info.name.starts_with("TORCH_TPU_")) << info.name;
    EXPECT_FALSE(info.doc.empty()) << info.name;
    EXPECT_TRUE(info.stage == "stable" || info.stage == "experimental" || info.stage == "internal");
    EXPECT_EQ(&env_info(info.var), &info);
    EXPECT_FALSE(env_accepted_values(info.var).empty()) << info.name;
    EXPECT_NE(env_kind_name(info.kind), "unknown");
    if (info.default_value.empty()) continue;
    // Defaults must be values that their own variable accepts.
    const ScopedEnv set(info.var, std::string(info.default_value).c_str());
    EXPECT_NO_THROW(check_environment()) << info.name;
  }
  EXPECT_GE(names.size(), 11u);
}

}  // namespace
}  // namespace torch_tpu
