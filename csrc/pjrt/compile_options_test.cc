#include "pjrt/compile_options.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/hash.h"
#include "pjrt/proto_writer.h"
#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using testing::contains;
using testing::error_of;

std::string hex(const std::string& bytes) {
  return to_hex(std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

TEST(ProtoWriter, WritesTheWireFormat) {
  ProtoWriter writer;
  writer.add_int(1, 150);
  writer.add_int(16, -1);
  writer.add_bytes(2, "testing");
  writer.add_float(3, 1.0f);
  writer.add_double(4, 1.0);
  EXPECT_EQ(hex(writer.bytes()),
            "089601"
            "8001ffffffffffffffffff01"
            "120774657374696e67"
            "1d0000803f"
            "21000000000000f03f");
}

TEST(CompileOptions, ASingleReplicaTakesSixBytes) {
  EXPECT_EQ(hex(CompileOptions().serialize()), "1a0420012801");
}

TEST(CompileOptions, EveryOverrideTypeHasItsField) {
  CompileOptions options;
  options.overrides = {{"a", std::string("x")}, {"b", true}, {"c", int64_t{3}}, {"d", 1.0}};
  EXPECT_EQ(hex(options.serialize()),
            "1a0420012801"
            "3a08"
            "0a0161"
            "12030a0178"
            "3a07"
            "0a0162"
            "12021001"
            "3a07"
            "0a0163"
            "12021803"
            "3a0e"
            "0a0164"
            "120921000000000000f03f");
}

TEST(CompileOptions, TheAssignmentListsDevicesByPartition) {
  CompileOptions options;
  options.num_replicas = 2;
  options.num_partitions = 2;
  options.device_assignment = {0, 1, 2, 3};
  // Partition 0 runs on devices 0 and 2.
  EXPECT_EQ(hex(options.serialize()),
            "1a16"
            "20022802"
            "4a10"
            "08021002"
            "1a0408000802"
            "1a0408010803");
}

TEST(CompileOptions, InconsistentOnesAreRefused) {
  CompileOptions none;
  none.num_replicas = 0;
  EXPECT_EQ(error_of([&] { none.serialize(); }).kind(), ErrorKind::kValue);
  CompileOptions assignment;
  assignment.device_assignment = {0, 1};
  EXPECT_EQ(error_of([&] { assignment.serialize(); }).kind(), ErrorKind::kValue);
  CompileOptions portable;
  portable.portable = true;
  portable.num_replicas = 2;
  EXPECT_EQ(error_of([&] { portable.serialize(); }).kind(), ErrorKind::kValue);
}

using CompileOptionsOnPlugin = testing::PluginTest;
TT_TEST_ON_ALL_PLUGINS(CompileOptionsOnPlugin);

TEST_P(CompileOptionsOnPlugin, AllOfThemAreUnderstood) {
  CompileOptions options;
  options.exec_time_optimization_effort = -0.5f;
  options.optimization_level = 9;
  options.device_assignment = {1};
  options.overrides = {{"xla_backend_optimization_level", int64_t{0}},
                       {"xla_cpu_enable_fast_math", false}};
  const LoadedExecutable executable = compile(testing::kAdd, options);
  EXPECT_EQ(executable.addressable_devices(), std::vector<PJRT_Device*>{device(1)});
  const Buffer a = f32({1, 2, 3, 4}, 1);
  EXPECT_EQ(values_of(run(executable, {a.raw(), a.raw()})), (std::vector<float>{2, 4, 6, 8}));
}

TEST_P(CompileOptionsOnPlugin, AnUnknownOverrideIsRefused) {
  CompileOptions options;
  options.overrides = {{"xla_no_such_option", true}};
  const Error error = error_of([&] { compile(testing::kAdd, options); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_TRUE(contains(error, "xla_no_such_option")) << error.what();
}

TEST_P(CompileOptionsOnPlugin, APortableExecutableRunsOnAnyDevice) {
  CompileOptions options;
  options.portable = true;
  const LoadedExecutable executable = compile(testing::kAdd, options);
  for (size_t index : {0, 1}) {
    const Buffer a = f32({1, 2, 3, 4}, index);
    const Buffer sum = run(executable, {a.raw(), a.raw()}, device(index));
    EXPECT_EQ(values_of(sum), (std::vector<float>{2, 4, 6, 8}));
    EXPECT_EQ(sum.device(), device(index));
  }
}

TEST_P(CompileOptionsOnPlugin, ReplicasReduceAcrossDevices) {
  constexpr std::string_view kAllReduce = R"(
module {
  func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %s = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";
  CompileOptions options;
  options.num_replicas = 2;
  const LoadedExecutable executable = compile(kAllReduce, options);
  const Buffer a = f32({1, 2, 3, 4}, 0);
  const Buffer b = f32({10, 20, 30, 40}, 1);
  PJRT_Buffer* row_a[] = {a.raw()};
  PJRT_Buffer* row_b[] = {b.raw()};
  PJRT_Buffer* const* args[] = {row_a, row_b};
  PJRT_Buffer* out_a[1];
  PJRT_Buffer* out_b[1];
  PJRT_Buffer** outputs[] = {out_a, out_b};
  executable.execute_sharded(args, 2, 1, outputs);
  const Buffer sum_a(client().api(), out_a[0]);
  const Buffer sum_b(client().api(), out_b[0]);
  EXPECT_EQ(values_of(sum_a), (std::vector<float>{11, 22, 33, 44}));
  EXPECT_EQ(values_of(sum_b), (std::vector<float>{11, 22, 33, 44}));
}

}  // namespace
}  // namespace torch_tpu::pjrt
