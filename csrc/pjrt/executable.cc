#include "pjrt/executable.h"

namespace torch_tpu::pjrt {

Executable::~Executable() {
  if (raw_ == nullptr) return;
  TT_PJRT_ARGS(PJRT_Executable_Destroy, args);
  args.executable = raw_;
  if (PJRT_Error* error = api_->PJRT_Executable_Destroy(&args)) {
    drop_error(api_, error, "destruction of an executable");
  }
}

std::string Executable::name() const {
  TT_PJRT_ARGS(PJRT_Executable_Name, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_Name(&args), "name of an executable");
  return std::string(args.executable_name, args.executable_name_size);
}

size_t Executable::num_outputs() const {
  TT_PJRT_ARGS(PJRT_Executable_NumOutputs, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_NumOutputs(&args), "outputs of an executable");
  return args.num_outputs;
}

size_t Executable::num_replicas() const {
  TT_PJRT_ARGS(PJRT_Executable_NumReplicas, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_NumReplicas(&args), "replicas of an executable");
  return args.num_replicas;
}

size_t Executable::num_partitions() const {
  TT_PJRT_ARGS(PJRT_Executable_NumPartitions, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_NumPartitions(&args), "partitions of an executable");
  return args.num_partitions;
}

std::vector<OutputType> Executable::output_types() const {
  TT_PJRT_REQUIRE(api_, PJRT_Executable_OutputElementTypes);
  TT_PJRT_REQUIRE(api_, PJRT_Executable_OutputDimensions);
  TT_PJRT_ARGS(PJRT_Executable_OutputElementTypes, types);
  types.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_OutputElementTypes(&types), "outputs of an executable");
  TT_PJRT_ARGS(PJRT_Executable_OutputDimensions, dims);
  dims.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_OutputDimensions(&dims), "outputs of an executable");
  TT_CHECK(types.num_output_types == dims.num_outputs, kInternal, "the plugin gives ",
           types.num_output_types, " output types and ", dims.num_outputs, " output shapes");
  std::vector<OutputType> outputs;
  outputs.reserve(types.num_output_types);
  const int64_t* next = dims.dims;
  for (size_t i = 0; i < types.num_output_types; ++i) {
    outputs.push_back(
        {types.output_types[i], std::vector<int64_t>(next, next + dims.dim_sizes[i])});
    next += dims.dim_sizes[i];
  }
  return outputs;
}

int64_t Executable::generated_code_bytes() const {
  TT_PJRT_ARGS(PJRT_Executable_SizeOfGeneratedCodeInBytes, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_SizeOfGeneratedCodeInBytes(&args),
           "code size of an executable");
  return args.size_in_bytes;
}

std::string Executable::fingerprint() const {
  TT_PJRT_REQUIRE(api_, PJRT_Executable_Fingerprint);
  TT_PJRT_ARGS(PJRT_Executable_Fingerprint, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_Fingerprint(&args), "fingerprint of an executable");
  return std::string(args.executable_fingerprint, args.executable_fingerprint_size);
}

std::string Executable::serialize() const {
  TT_PJRT_REQUIRE(api_, PJRT_Executable_Serialize);
  TT_PJRT_ARGS(PJRT_Executable_Serialize, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_Serialize(&args), "serialisation of an executable");
  struct Deleter {
    const PJRT_Executable_Serialize_Args& args;
    ~Deleter() {
      if (args.serialized_executable_deleter != nullptr) {
        args.serialized_executable_deleter(args.serialized_executable);
      }
    }
  } deleter{args};
  return std::string(args.serialized_bytes, args.serialized_bytes_size);
}

OptimizedProgram Executable::optimized_program() const {
  TT_PJRT_REQUIRE(api_, PJRT_Executable_OptimizedProgram);
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  TT_PJRT_ARGS(PJRT_Executable_OptimizedProgram, args);
  args.executable = raw_;
  args.program = &program;
  // Once for the size, once for the code.
  raise_if(api_, api_->PJRT_Executable_OptimizedProgram(&args), "optimised program");
  OptimizedProgram result;
  result.code.resize(program.code_size);
  program.code = result.code.data();
  raise_if(api_, api_->PJRT_Executable_OptimizedProgram(&args), "optimised program");
  result.format.assign(program.format, program.format_size);
  return result;
}

CompiledMemoryStats Executable::memory_stats() const {
  TT_PJRT_REQUIRE(api_, PJRT_Executable_GetCompiledMemoryStats);
  TT_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_GetCompiledMemoryStats(&args),
           "memory statistics of an executable");
  return {.generated_code_bytes = args.generated_code_size_in_bytes,
          .argument_bytes = args.argument_size_in_bytes,
          .output_bytes = args.output_size_in_bytes,
          .alias_bytes = args.alias_size_in_bytes,
          .temp_bytes = args.temp_size_in_bytes,
          .host_generated_code_bytes = args.host_generated_code_size_in_bytes,
          .host_argument_bytes = args.host_argument_size_in_bytes,
          .host_output_bytes = args.host_output_size_in_bytes,
          .host_alias_bytes = args.host_alias_size_in_bytes,
          .host_temp_bytes = args.host_temp_size_in_bytes,
          .peak_bytes = args.peak_memory_in_bytes};
}

std::vector<NamedValue> Executable::cost_analysis() const {
  TT_PJRT_REQUIRE(api_, PJRT_Executable_GetCostAnalysis);
  TT_PJRT_ARGS(PJRT_Executable_GetCostAnalysis, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_Executable_GetCostAnalysis(&args), "cost analysis of an executable");
  std::vector<NamedValue> costs;
  costs.reserve(args.num_properties);
  for (size_t i = 0; i < args.num_properties; ++i) costs.push_back(from_c(args.properties[i]));
  return costs;
}

// The delegation makes the object complete, so that its destructor runs when the body throws.
LoadedExecutable::LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* adopted)
    : LoadedExecutable() {
  api_ = api;
  raw_ = adopted;
  TT_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable, args);
  args.loaded_executable = raw_;
  raise_if(api_, api_->PJRT_LoadedExecutable_GetExecutable(&args), "query of an executable");
  executable_ = Executable(api_, args.executable);
  num_outputs_ = executable_.num_outputs();
}

LoadedExecutable::~LoadedExecutable() {
  if (raw_ == nullptr) return;
  TT_PJRT_ARGS(PJRT_LoadedExecutable_Destroy, args);
  args.executable = raw_;
  if (PJRT_Error* error = api_->PJRT_LoadedExecutable_Destroy(&args)) {
    drop_error(api_, error, "destruction of a loaded executable");
  }
}

std::vector<PJRT_Device*> LoadedExecutable::addressable_devices() const {
  TT_PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices, args);
  args.executable = raw_;
  raise_if(api_, api_->PJRT_LoadedExecutable_AddressableDevices(&args), "devices of an executable");
  return {args.addressable_devices, args.addressable_devices + args.num_addressable_devices};
}

void LoadedExecutable::execute_sharded(PJRT_Buffer* const* const* args, size_t num_devices,
                                       size_t num_args, PJRT_Buffer** const* outputs,
                                       std::span<const int64_t> non_donatable,
                                       int launch_id) const {
  PJRT_ExecuteOptions options{};
  options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
  options.non_donatable_input_indices = non_donatable.data();
  options.num_non_donatable_input_indices = non_donatable.size();
  options.launch_id = launch_id;
  TT_PJRT_ARGS(PJRT_LoadedExecutable_Execute, call);
  call.executable = raw_;
  call.options = &options;
  call.argument_lists = args;
  call.num_devices = num_devices;
  call.num_args = num_args;
  call.output_lists = outputs;
  raise_if(api_, api_->PJRT_LoadedExecutable_Execute(&call), "execution failed");
}

}  // namespace torch_tpu::pjrt
