#include "pjrt/compile_options.h"

#include "base/error.h"
#include "pjrt/proto_writer.h"

namespace torch_tpu::pjrt {
namespace {

// Field numbers of xla's compile_options.proto and xla_data.proto.
namespace field {
constexpr int kBuildOptions = 3;
constexpr int kPortableExecutable = 4;
constexpr int kOverrides = 7;
}  // namespace field

namespace build_field {
constexpr int kDebugOptions = 3;
constexpr int kNumReplicas = 4;
constexpr int kNumPartitions = 5;
constexpr int kUseSpmdPartitioning = 6;
constexpr int kDeviceAssignment = 9;
constexpr int kUseShardyPartitioner = 19;
constexpr int kExecTimeOptimizationEffort = 20;
constexpr int kOptimizationLevel = 24;
}  // namespace build_field

ProtoWriter encode(const OptionValue& value) {
  ProtoWriter writer;
  if (const auto* text = std::get_if<std::string>(&value))
    writer.add_bytes(1, *text);
  else if (const auto* flag = std::get_if<bool>(&value))
    writer.add_bool(2, *flag);
  else if (const auto* number = std::get_if<int64_t>(&value))
    writer.add_int(3, *number);
  else
    writer.add_double(4, std::get<double>(value));
  return writer;
}

// One message per partition that lists the devices of its replicas.
ProtoWriter encode_assignment(const CompileOptions& options) {
  ProtoWriter writer;
  writer.add_int(1, options.num_replicas);
  writer.add_int(2, options.num_partitions);
  for (int64_t partition = 0; partition < options.num_partitions; ++partition) {
    ProtoWriter devices;
    for (int64_t replica = 0; replica < options.num_replicas; ++replica) {
      devices.add_int(1, options.device_assignment[replica * options.num_partitions + partition]);
    }
    writer.add_message(3, devices);
  }
  return writer;
}

void check_options(const CompileOptions& options) {
  TT_CHECK(options.num_replicas > 0 && options.num_partitions > 0, kValue,
           "compile options: num_replicas is ", options.num_replicas, ", num_partitions ",
           options.num_partitions, "; both must be at least 1");
  const auto expected = static_cast<size_t>(options.num_replicas * options.num_partitions);
  TT_CHECK(options.device_assignment.empty() || options.device_assignment.size() == expected,
           kValue, "compile options: device_assignment has ", options.device_assignment.size(),
           " devices, ", options.num_replicas, " replicas of ", options.num_partitions,
           " partitions need ", expected);
  TT_CHECK(!options.portable || (options.device_assignment.empty() && expected == 1), kValue,
           "compile options: a portable executable has one device and no device_assignment");
}

}  // namespace

std::string CompileOptions::serialize() const {
  check_options(*this);
  ProtoWriter build;
  build.add_int(build_field::kNumReplicas, num_replicas);
  build.add_int(build_field::kNumPartitions, num_partitions);
  if (use_spmd_partitioning) build.add_bool(build_field::kUseSpmdPartitioning, true);
  if (!device_assignment.empty()) {
    build.add_message(build_field::kDeviceAssignment, encode_assignment(*this));
  }
  if (use_shardy_partitioner) build.add_bool(build_field::kUseShardyPartitioner, true);
  if (exec_time_optimization_effort) {
    build.add_float(build_field::kExecTimeOptimizationEffort, *exec_time_optimization_effort);
  }
  if (optimization_level) build.add_int(build_field::kOptimizationLevel, *optimization_level);
  if (!debug_options.empty()) build.add_bytes(build_field::kDebugOptions, debug_options);

  ProtoWriter writer;
  writer.add_message(field::kBuildOptions, build);
  if (portable) writer.add_bool(field::kPortableExecutable, true);
  for (const auto& [name, value] : overrides) {
    ProtoWriter entry;
    entry.add_bytes(1, name);
    entry.add_message(2, encode(value));
    writer.add_message(field::kOverrides, entry);
  }
  return writer.bytes();
}

}  // namespace torch_tpu::pjrt
