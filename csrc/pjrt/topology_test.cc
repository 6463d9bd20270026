#include "pjrt/topology.h"

#include <gtest/gtest.h>

#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using TopologyTest = testing::PluginTest;
using testing::error_of;
TT_TEST_ON_ALL_PLUGINS(TopologyTest);

// CPU plugins differ in what they describe without a client; none may do more than refuse.
TEST_P(TopologyTest, ACpuPluginDescribesATopologyOrRefuses) {
  try {
    const Topology topology = Topology::create(Plugin::load(path()), "no-such-topology");
    EXPECT_EQ(topology.platform_name(), "cpu");
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()), "");
  }
}

// Needs libtpu and the environment that keeps it from the network.
class TpuTopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::path_from("TORCH_TPU_TEST_PLUGIN_TPU");
    if (path_.empty()) GTEST_SKIP() << "TORCH_TPU_TEST_PLUGIN_TPU is not set";
    ::setenv("TPU_SKIP_MDS_QUERY", "1", 0);
    ::setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
    ::setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", 0);
    ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 0);
  }
  std::shared_ptr<Plugin> plugin() const { return Plugin::load(path_); }

 private:
  std::string path_;
};

TEST_F(TpuTopologyTest, CompilesForAChipThatIsNotThere) {
  const Topology topology = Topology::create(plugin(), "v5e:2x2");
  EXPECT_EQ(topology.platform_name(), "tpu");
  EXPECT_EQ(topology.devices().size(), 4u);
  EXPECT_FALSE(topology.devices()[0].kind().empty());
  const Executable add = topology.compile(testing::kAdd, CompileOptions().serialize());
  EXPECT_EQ(add.num_outputs(), 1u);
  EXPECT_EQ(add.output_types(), (std::vector<OutputType>{{PJRT_Buffer_Type_F32, {4}}}));
  EXPECT_FALSE(add.serialize().empty());
}

TEST_F(TpuTopologyTest, AnUnknownNameIsAnError) {
  error_of([&] { Topology::create(plugin(), "v99:1x1"); });
}

}  // namespace
}  // namespace torch_tpu::pjrt
