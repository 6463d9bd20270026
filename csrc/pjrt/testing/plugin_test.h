#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/plugin.h"

namespace torch_tpu::pjrt::testing {

// A plugin under test: the variable that holds its path.
struct PluginParam {
  const char* name;
  const char* variable;
};

inline const PluginParam kPluginParams[] = {
    {"Xla", "TORCH_TPU_TEST_PLUGIN_XLA"},
    {"Lammps", "TORCH_TPU_TEST_PLUGIN_LAMMPS"},
};

inline std::string path_from(const char* variable) {
  const char* path = std::getenv(variable);
  return path == nullptr ? "" : path;
}

inline std::vector<NamedValue> two_devices() { return {{"cpu_device_count", int64_t{2}}}; }

// Runs each test on each plugin; skips it where the variable isn't set. One client with two devices
// serves all tests of a plugin.
class PluginTest : public ::testing::TestWithParam<PluginParam> {
 protected:
  void SetUp() override {
    path_ = path_from(GetParam().variable);
    if (path_.empty()) GTEST_SKIP() << GetParam().variable << " is not set";
    std::optional<Client>& client = clients()[path_];
    if (!client) client.emplace(Client::create(Plugin::load(path_), two_devices()));
    client_ = &*client;
  }

  static void TearDownTestSuite() { clients().clear(); }

  const Client& client() const { return *client_; }
  const std::string& path() const { return path_; }
  PJRT_Device* device(size_t index = 0) const { return client().devices().at(index).raw(); }

  LoadedExecutable compile(std::string_view program, CompileOptions options = {}) const {
    return client().compile(program, options.serialize());
  }

  Buffer f32(const std::vector<float>& values, size_t device_index = 0) const {
    const std::vector<int64_t> dims = {static_cast<int64_t>(values.size())};
    return client()
        .buffer_from_host(values.data(), PJRT_Buffer_Type_F32, dims, {}, device(device_index))
        .buffer;
  }

  static std::vector<float> values_of(const Buffer& buffer) {
    std::vector<float> values(buffer.host_size_bytes() / sizeof(float));
    buffer.to_host(values.data(), values.size() * sizeof(float)).await();
    return values;
  }

  Buffer run(const LoadedExecutable& executable, std::vector<PJRT_Buffer*> args,
             PJRT_Device* device = nullptr, std::span<const int64_t> non_donatable = {}) const {
    PJRT_Buffer* output = nullptr;
    executable.execute(args.data(), args.size(), &output, device, non_donatable);
    return Buffer(client().api(), output);
  }

 private:
  static std::map<std::string, std::optional<Client>>& clients() {
    static std::map<std::string, std::optional<Client>> instance;
    return instance;
  }

  std::string path_;
  const Client* client_ = nullptr;
};

// The error that an action throws; fails the test when it throws none.
template <typename Action>
Error error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "did not throw";
  return Error(ErrorKind::kInternal, "did not throw");
}

inline bool contains(const Error& error, std::string_view text) {
  return error.message().find(text) != std::string::npos;
}

#define TT_TEST_ON_ALL_PLUGINS(Fixture)                                                    \
  INSTANTIATE_TEST_SUITE_P(Plugins, Fixture,                                               \
                           ::testing::ValuesIn(::torch_tpu::pjrt::testing::kPluginParams), \
                           [](const auto& info) { return std::string(info.param.name); })

inline constexpr std::string_view kAdd = R"(
module {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

inline constexpr std::string_view kDonatingAdd = R"(
module {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>)
      -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

}  // namespace torch_tpu::pjrt::testing
