#include "pjrt/executable.h"

#include <gtest/gtest.h>

#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using ExecutableTest = testing::PluginTest;
using testing::contains;
using testing::error_of;
using Floats = std::vector<float>;
TT_TEST_ON_ALL_PLUGINS(ExecutableTest);

TEST_P(ExecutableTest, AddsTwoArrays) {
  const LoadedExecutable add = compile(testing::kAdd);
  const Buffer a = f32({1, 2, 3, 4});
  const Buffer b = f32({10, 20, 30, 40});
  EXPECT_EQ(values_of(run(add, {a.raw(), b.raw()})), (Floats{11, 22, 33, 44}));
}

TEST_P(ExecutableTest, DescribesItself) {
  constexpr std::string_view kTwoOutputs = R"(
module @two {
  func.func public @main(%a: tensor<2x3xf32>) -> (tensor<f32>, tensor<2x3xi32>) {
    %0 = stablehlo.constant dense<1.0> : tensor<f32>
    %1 = stablehlo.convert %a : (tensor<2x3xf32>) -> tensor<2x3xi32>
    return %0, %1 : tensor<f32>, tensor<2x3xi32>
  }
})";
  const LoadedExecutable executable = compile(kTwoOutputs);
  EXPECT_EQ(executable.num_outputs(), 2u);
  EXPECT_EQ(executable.output_types(),
            (std::vector<OutputType>{{PJRT_Buffer_Type_F32, {}}, {PJRT_Buffer_Type_S32, {2, 3}}}));
  EXPECT_EQ(executable.executable().num_replicas(), 1u);
  EXPECT_EQ(executable.executable().num_partitions(), 1u);
  EXPECT_TRUE(executable.executable().name().find("two") != std::string::npos)
      << executable.executable().name();
  EXPECT_FALSE(executable.executable().fingerprint().empty());
  const OptimizedProgram program = executable.optimized_program();
  EXPECT_EQ(program.format, "hlo_with_config");
  EXPECT_FALSE(program.code.empty());
  const CompiledMemoryStats memory = executable.memory_stats();
  EXPECT_EQ(memory.argument_bytes, 24);
  EXPECT_GE(memory.output_bytes, 28);
}

TEST_P(ExecutableTest, CostAnalysisGivesCostsOrSaysThatItCannot) {
  const LoadedExecutable add = compile(testing::kAdd);
  try {
    EXPECT_FALSE(add.cost_analysis().empty());
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNotImplemented);
  }
}

TEST_P(ExecutableTest, MovedExecutablesRun) {
  LoadedExecutable first = compile(testing::kAdd);
  LoadedExecutable second = std::move(first);
  EXPECT_FALSE(first);
  first = std::move(second);
  const Buffer a = f32({1, 2, 3, 4});
  EXPECT_EQ(values_of(run(first, {a.raw(), a.raw()})), (Floats{2, 4, 6, 8}));
}

TEST_P(ExecutableTest, TheWrongNumberOrSizeOfArgumentsIsAnError) {
  const LoadedExecutable add = compile(testing::kAdd);
  const Buffer a = f32({1, 2, 3, 4});
  const Buffer small = f32({1, 2});
  EXPECT_EQ(error_of([&] { run(add, {a.raw()}); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { run(add, {a.raw(), small.raw()}); }).kind(),
            ErrorKind::kInvalidArgument);
  EXPECT_EQ(values_of(run(add, {a.raw(), a.raw()})), (Floats{2, 4, 6, 8}));
}

TEST_P(ExecutableTest, ADonatedArgumentIsReusedAndGone) {
  const LoadedExecutable add = compile(testing::kDonatingAdd);
  const Buffer a = f32({1, 2, 3, 4});
  const Buffer b = f32({10, 20, 30, 40});
  a.await();
  const void* address = a.unsafe_pointer();
  const Buffer sum = run(add, {a.raw(), b.raw()});
  EXPECT_TRUE(a.is_deleted());
  EXPECT_FALSE(b.is_deleted());
  EXPECT_EQ(values_of(sum), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(sum.unsafe_pointer(), address);
}

TEST_P(ExecutableTest, UseAfterDonationIsAnErrorAndTheDeviceWorksOn) {
  const LoadedExecutable add = compile(testing::kDonatingAdd);
  const Buffer a = f32({1, 2, 3, 4});
  const Buffer b = f32({10, 20, 30, 40});
  const Buffer sum = run(add, {a.raw(), b.raw()});
  const Error error = error_of([&] { run(add, {a.raw(), b.raw()}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_TRUE(contains(error, "donated")) << error.what();
  Floats host(4);
  error_of([&] { a.to_host(host.data(), 16).await(); });
  error_of([&] { a.await(); });
  EXPECT_EQ(values_of(run(compile(testing::kAdd), {b.raw(), b.raw()})), (Floats{20, 40, 60, 80}));
}

TEST_P(ExecutableTest, ANonDonatableArgumentStays) {
  const LoadedExecutable add = compile(testing::kDonatingAdd);
  const Buffer a = f32({1, 2, 3, 4});
  const std::vector<int64_t> non_donatable = {0};
  EXPECT_EQ(values_of(run(add, {a.raw(), a.raw()}, nullptr, non_donatable)), (Floats{2, 4, 6, 8}));
  EXPECT_FALSE(a.is_deleted());
  EXPECT_EQ(values_of(a), (Floats{1, 2, 3, 4}));
}

TEST_P(ExecutableTest, TheSameBufferDonatedAndReadIsAnError) {
  const LoadedExecutable add = compile(testing::kDonatingAdd);
  const Buffer a = f32({1, 2, 3, 4});
  EXPECT_EQ(error_of([&] { run(add, {a.raw(), a.raw()}); }).kind(), ErrorKind::kInvalidArgument);
}

TEST_P(ExecutableTest, AnExternalReferencePreventsDonation) {
  const LoadedExecutable add = compile(testing::kDonatingAdd);
  const Buffer a = f32({1, 2, 3, 4});
  const Buffer b = f32({10, 20, 30, 40});
  const ExternalReference reference(a);
  const auto* address = static_cast<const float*>(a.unsafe_pointer());
  EXPECT_EQ(values_of(run(add, {a.raw(), b.raw()})), (Floats{11, 22, 33, 44}));
  EXPECT_EQ(Floats(address, address + 4), (Floats{1, 2, 3, 4}));
}

TEST_P(ExecutableTest, CompletionComesAsAnEvent) {
  const LoadedExecutable add = compile(testing::kAdd);
  const Buffer a = f32({1, 2, 3, 4});
  PJRT_Buffer* args[] = {a.raw(), a.raw()};
  PJRT_Buffer* output = nullptr;
  Event completion;
  add.execute(args, 2, &output, nullptr, {}, &completion);
  const Buffer sum(client().api(), output);
  ASSERT_TRUE(completion);
  completion.await();
  EXPECT_TRUE(completion.is_ready());
  EXPECT_TRUE(sum.is_ready());
}

}  // namespace
}  // namespace torch_tpu::pjrt
