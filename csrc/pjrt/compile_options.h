#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace torch_tpu::pjrt {

// An XLA debug option by its flag's name without dashes; enumerations take the value's name.
using OptionValue = std::variant<std::string, bool, int64_t, double>;

// What XLA's CompileOptionsProto can say, as far as we use it.
struct CompileOptions {
  int64_t num_replicas = 1;
  int64_t num_partitions = 1;
  // Needed as soon as num_partitions > 1.
  bool use_spmd_partitioning = false;
  // For programs with sdy annotations; needs use_spmd_partitioning too.
  bool use_shardy_partitioner = false;
  // Global device ids, replica by replica (num_replicas x num_partitions); empty: the default ones.
  std::vector<int64_t> device_assignment;
  // One executable for any one device, named at execute.
  bool portable = false;
  // -1.0 (compile fast) .. 1.0.
  std::optional<float> exec_time_optimization_effort;
  // The number of an xla EffortLevel; the CPU plugins take it and compile the same.
  std::optional<int64_t> optimization_level;
  // A complete serialised xla.DebugOptions; a partial one would zero every default.
  std::string debug_options;
  // Ordered, so that equal options give equal bytes.
  std::map<std::string, OptionValue> overrides;

  // The message's bytes. Throws Error(kValue) when the assignment's length or the counts are wrong.
  std::string serialize() const;
};

}  // namespace torch_tpu::pjrt
