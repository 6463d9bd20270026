// torch_tpu_pjrt_probe PLUGIN [name=type:value ...]: loads the plugin, makes a client, compiles and
// runs a program, prints one line of JSON. Exit code 0 if all of it works, 2 with a message on
// stderr if not; a broken plugin may end it by a signal, which is what it is for.

#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/plugin.h"

namespace torch_tpu::pjrt {
namespace {

constexpr std::string_view kProgram = R"(
module @probe {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
)";

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      result += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return result + '"';
}

void run_program(const Client& client) {
  PJRT_Device* device = client.devices().front().raw();
  const LoadedExecutable executable = client.compile(kProgram, CompileOptions().serialize());
  const std::array<float, 4> a = {1, 2, 3, 4};
  const std::array<float, 4> b = {10, 20, 30, 40};
  const std::array<int64_t, 1> dims = {4};
  const TransferredBuffer x =
      client.buffer_from_host(a.data(), PJRT_Buffer_Type_F32, dims, {}, device);
  const TransferredBuffer y =
      client.buffer_from_host(b.data(), PJRT_Buffer_Type_F32, dims, {}, device);
  PJRT_Buffer* args[] = {x.buffer.raw(), y.buffer.raw()};
  PJRT_Buffer* output = nullptr;
  executable.execute(args, 2, &output);
  const Buffer result(client.api(), output);
  std::array<float, 4> sum{};
  result.to_host(sum.data(), sizeof sum).await();
  for (size_t i = 0; i < sum.size(); ++i) {
    TT_CHECK(sum[i] == a[i] + b[i], kUnavailable, "the plugin computes ", sum[i], " for ", a[i],
             " + ", b[i]);
  }
}

void probe(const std::string& path, std::span<const NamedValue> options) {
  const std::shared_ptr<Plugin> plugin = Plugin::load(path);
  const Client client = Client::create(plugin, options);
  TT_CHECK(!client.devices().empty(), kUnavailable, "the client has no device");
  run_program(client);
  const ApiVersion version = plugin->api_version();
  std::cout << "{\"platform\": " << quoted(client.platform_name())
            << ", \"platform_version\": " << quoted(client.platform_version())
            << ", \"api_version\": [" << version.major << ", " << version.minor
            << "], \"num_devices\": " << client.devices().size()
            << ", \"device_kind\": " << quoted(client.devices().front().kind()) << "}" << std::endl;
}

int run(std::span<char*> arguments) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (arguments.size() < 2) {
    std::cerr << "usage: torch_tpu_pjrt_probe PLUGIN [name=type:value ...]\n";
    return 1;
  }
  try {
    std::vector<NamedValue> options;
    for (const char* argument : arguments.subspan(2)) options.push_back(parse_argument(argument));
    probe(arguments[1], options);
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 2;
  }
}

}  // namespace
}  // namespace torch_tpu::pjrt

int main(int argc, char** argv) { return torch_tpu::pjrt::run({argv, static_cast<size_t>(argc)}); }
