#include "runtime/numerics_probe.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace torch_tpu::runtime {
namespace {

constexpr int64_t kSize = 64;

constexpr std::string_view kProgram = R"(module {
  func.func @main(%a: tensor<64xf32>, %b: tensor<64xf32>, %x: tensor<64xbf16>, %y: tensor<64xbf16>)
      -> (tensor<64xf32>, tensor<f32>, tensor<64xbf16>) {
    %larger = stablehlo.maximum %a, %b : tensor<64xf32>
    %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %largest = stablehlo.reduce(%a init: %lowest) applies stablehlo.maximum across dimensions = [0]
        : (tensor<64xf32>, tensor<f32>) -> tensor<f32>
    %square = stablehlo.multiply %x, %x : tensor<64xbf16>
    %rest = stablehlo.subtract %square, %y : tensor<64xbf16>
    return %larger, %largest, %rest : tensor<64xf32>, tensor<f32>, tensor<64xbf16>
  }
})";

pjrt::Buffer upload(const pjrt::Client& client, PJRT_Device* device, PJRT_Buffer_Type type,
                    const void* data) {
  const std::array<int64_t, 1> dims = {kSize};
  return client.buffer_from_host(data, type, dims, {}, device).buffer;
}

}  // namespace

std::vector<std::string> ineffective_options(
    const pjrt::Client& client, PJRT_Device* device,
    const std::map<std::string, pjrt::OptionValue>& overrides) {
  pjrt::CompileOptions options;
  options.portable = true;
  options.overrides = overrides;
  const pjrt::LoadedExecutable executable = client.compile(kProgram, options.serialize());

  std::array<float, kSize> ones;
  ones.fill(1.0F);
  std::array<float, kSize> with_nan = ones;
  with_nan[5] = with_nan[40] = std::numeric_limits<float>::quiet_NaN();
  std::array<uint16_t, kSize> x;
  x.fill(0x3F81);  // 1 + 2^-7, whose square 1 + 2^-6 + 2^-14 rounds to y
  std::array<uint16_t, kSize> y;
  y.fill(0x3F82);  // 1 + 2^-6
  const std::array<pjrt::Buffer, 4> inputs = {
      upload(client, device, PJRT_Buffer_Type_F32, with_nan.data()),
      upload(client, device, PJRT_Buffer_Type_F32, ones.data()),
      upload(client, device, PJRT_Buffer_Type_BF16, x.data()),
      upload(client, device, PJRT_Buffer_Type_BF16, y.data())};
  std::array<PJRT_Buffer*, 4> raw;
  for (size_t i = 0; i < raw.size(); ++i) raw[i] = inputs[i].raw();
  std::array<PJRT_Buffer*, 3> raw_outputs{};
  executable.execute(raw.data(), raw.size(), raw_outputs.data(), device);
  std::array<pjrt::Buffer, 3> outputs;
  for (size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = pjrt::Buffer(executable.api(), raw_outputs[i]);

  std::array<float, kSize> larger;
  float largest = 0;
  std::array<uint16_t, kSize> rest;
  outputs[0].to_host(larger.data(), sizeof(larger)).await();
  outputs[1].to_host(&largest, sizeof(largest)).await();
  outputs[2].to_host(rest.data(), sizeof(rest)).await();

  std::vector<std::string> failed;
  if (!std::isnan(larger[5]) || !std::isnan(larger[40]))
    failed.emplace_back("xla_cpu_enable_fast_min_max");
  if (!std::isnan(largest)) failed.emplace_back("xla_cpu_experimental_ynn_fusion_type");
  if (rest[0] != 0) failed.emplace_back("xla_allow_excess_precision");
  return failed;
}

}  // namespace torch_tpu::runtime
