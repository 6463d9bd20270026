#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/api.h"
#include "pjrt/event.h"
#include "pjrt/named_value.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

struct CompiledMemoryStats {
  int64_t generated_code_bytes = 0;
  int64_t argument_bytes = 0;
  int64_t output_bytes = 0;
  int64_t alias_bytes = 0;
  int64_t temp_bytes = 0;
  int64_t host_generated_code_bytes = 0;
  int64_t host_argument_bytes = 0;
  int64_t host_output_bytes = 0;
  int64_t host_alias_bytes = 0;
  int64_t host_temp_bytes = 0;
  int64_t peak_bytes = 0;
};

struct OptimizedProgram {
  std::string code;
  std::string format;  // "hlo_with_config": a binary HloModuleProtoWithConfig
};

struct OutputType {
  PJRT_Buffer_Type type;
  std::vector<int64_t> dims;
  bool operator==(const OutputType&) const = default;
};

// A compiled program that is not tied to devices. Functions whose slot the plugin lacks, or that it
// declines, throw Error(kNotImplemented).
class Executable {
 public:
  Executable() = default;
  Executable(const PJRT_Api* api, PJRT_Executable* adopted) : api_(api), raw_(adopted) {}
  Executable(Executable&& other) noexcept
      : api_(other.api_), raw_(std::exchange(other.raw_, nullptr)) {}
  Executable& operator=(Executable&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Executable();

  PJRT_Executable* raw() const { return raw_; }
  std::string name() const;
  size_t num_outputs() const;
  size_t num_replicas() const;
  size_t num_partitions() const;
  std::vector<OutputType> output_types() const;
  int64_t generated_code_bytes() const;
  // Not usable as a key: different programs can share one.
  std::string fingerprint() const;
  // Bytes for Client::deserialize of the very same plugin file. They carry no checksum: a damaged
  // or foreign blob may load and compute wrong values.
  std::string serialize() const;
  OptimizedProgram optimized_program() const;
  CompiledMemoryStats memory_stats() const;
  std::vector<NamedValue> cost_analysis() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Executable* raw_ = nullptr;
};

// A compiled program loaded on devices. Must go before its client.
class LoadedExecutable {
 public:
  LoadedExecutable() = default;
  LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* adopted);
  LoadedExecutable(LoadedExecutable&& other) noexcept
      : api_(other.api_),
        raw_(std::exchange(other.raw_, nullptr)),
        executable_(std::move(other.executable_)),
        num_outputs_(other.num_outputs_) {}
  LoadedExecutable& operator=(LoadedExecutable&& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(raw_, other.raw_);
    std::swap(executable_, other.executable_);
    std::swap(num_outputs_, other.num_outputs_);
    return *this;
  }
  ~LoadedExecutable();

  explicit operator bool() const { return raw_ != nullptr; }
  const PJRT_Api* api() const { return api_; }
  PJRT_LoadedExecutable* raw() const { return raw_; }
  const Executable& executable() const { return executable_; }
  size_t num_outputs() const { return num_outputs_; }
  std::vector<PJRT_Device*> addressable_devices() const;

  // Enqueues one run on one device and returns; results become ready on their own. Allocates
  // nothing here. `outputs` has room for num_outputs() buffers, which the caller then owns; on an
  // error it is unchanged. `device` must be null (the device compiled for) unless the executable
  // was compiled as portable or for several devices. Inputs that the program may donate are deleted
  // by the call, except those whose index is in `non_donatable`. `completion` receives the end of
  // the run. The plugin checks the number of arguments and their byte sizes, not their dtypes.
  // Throws kInvalidArgument for a deleted or donated argument.
  void execute(PJRT_Buffer* const* args, size_t num_args, PJRT_Buffer** outputs,
               PJRT_Device* device = nullptr, std::span<const int64_t> non_donatable = {},
               Event* completion = nullptr) const {
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    options.non_donatable_input_indices = non_donatable.data();
    options.num_non_donatable_input_indices = non_donatable.size();
    PJRT_Event* completion_event = nullptr;
    TT_PJRT_ARGS(PJRT_LoadedExecutable_Execute, call);
    call.executable = raw_;
    call.options = &options;
    call.argument_lists = &args;
    call.num_devices = 1;
    call.num_args = num_args;
    call.output_lists = &outputs;
    call.device_complete_events = completion != nullptr ? &completion_event : nullptr;
    call.execute_device = device;
    raise_if(api_, api_->PJRT_LoadedExecutable_Execute(&call), "execution failed");
    if (completion != nullptr) *completion = Event(api_, completion_event);
  }

  // One run over several devices: lists of num_devices pointers to rows as above.
  void execute_sharded(PJRT_Buffer* const* const* args, size_t num_devices, size_t num_args,
                       PJRT_Buffer** const* outputs, std::span<const int64_t> non_donatable = {},
                       int launch_id = 0) const;

  std::vector<OutputType> output_types() const { return executable_.output_types(); }
  std::string serialize() const { return executable_.serialize(); }
  OptimizedProgram optimized_program() const { return executable_.optimized_program(); }
  CompiledMemoryStats memory_stats() const { return executable_.memory_stats(); }
  std::vector<NamedValue> cost_analysis() const { return executable_.cost_analysis(); }

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_LoadedExecutable* raw_ = nullptr;
  Executable executable_;
  size_t num_outputs_ = 0;
};

}  // namespace torch_tpu::pjrt
