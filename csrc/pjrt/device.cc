#include "pjrt/device.h"

namespace torch_tpu::pjrt {

int DeviceDescription::id() const {
  TT_PJRT_ARGS(PJRT_DeviceDescription_Id, args);
  args.device_description = raw_;
  raise_if(api_, api_->PJRT_DeviceDescription_Id(&args), "id of a device");
  return args.id;
}

int DeviceDescription::process_index() const {
  TT_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex, args);
  args.device_description = raw_;
  raise_if(api_, api_->PJRT_DeviceDescription_ProcessIndex(&args), "process of a device");
  return args.process_index;
}

std::string DeviceDescription::kind() const {
  TT_PJRT_ARGS(PJRT_DeviceDescription_Kind, args);
  args.device_description = raw_;
  raise_if(api_, api_->PJRT_DeviceDescription_Kind(&args), "kind of a device");
  return std::string(args.device_kind, args.device_kind_size);
}

std::string DeviceDescription::debug_string() const {
  TT_PJRT_ARGS(PJRT_DeviceDescription_DebugString, args);
  args.device_description = raw_;
  raise_if(api_, api_->PJRT_DeviceDescription_DebugString(&args), "description of a device");
  return std::string(args.debug_string, args.debug_string_size);
}

std::string DeviceDescription::to_string() const {
  TT_PJRT_ARGS(PJRT_DeviceDescription_ToString, args);
  args.device_description = raw_;
  raise_if(api_, api_->PJRT_DeviceDescription_ToString(&args), "description of a device");
  return std::string(args.to_string, args.to_string_size);
}

std::vector<NamedValue> DeviceDescription::attributes() const {
  TT_PJRT_ARGS(PJRT_DeviceDescription_Attributes, args);
  args.device_description = raw_;
  raise_if(api_, api_->PJRT_DeviceDescription_Attributes(&args), "attributes of a device");
  std::vector<NamedValue> attributes;
  attributes.reserve(args.num_attributes);
  for (size_t i = 0; i < args.num_attributes; ++i) {
    attributes.push_back(from_c(args.attributes[i]));
  }
  return attributes;
}

DeviceDescription Device::description() const {
  TT_PJRT_ARGS(PJRT_Device_GetDescription, args);
  args.device = raw_;
  raise_if(api_, api_->PJRT_Device_GetDescription(&args), "description of a device");
  return DeviceDescription(api_, args.device_description);
}

int Device::local_hardware_id() const {
  TT_PJRT_ARGS(PJRT_Device_LocalHardwareId, args);
  args.device = raw_;
  raise_if(api_, api_->PJRT_Device_LocalHardwareId(&args), "hardware id of a device");
  return args.local_hardware_id;
}

bool Device::is_addressable() const {
  TT_PJRT_ARGS(PJRT_Device_IsAddressable, args);
  args.device = raw_;
  raise_if(api_, api_->PJRT_Device_IsAddressable(&args), "query of a device");
  return args.is_addressable;
}

PJRT_Memory* Device::default_memory() const {
  TT_PJRT_ARGS(PJRT_Device_DefaultMemory, args);
  args.device = raw_;
  raise_if(api_, api_->PJRT_Device_DefaultMemory(&args), "memory of a device");
  return args.memory;
}

std::vector<PJRT_Memory*> Device::memories() const {
  TT_PJRT_ARGS(PJRT_Device_AddressableMemories, args);
  args.device = raw_;
  raise_if(api_, api_->PJRT_Device_AddressableMemories(&args), "memories of a device");
  return {args.memories, args.memories + args.num_memories};
}

std::optional<DeviceMemoryStats> Device::memory_stats() const {
  TT_PJRT_ARGS(PJRT_Device_MemoryStats, args);
  args.device = raw_;
  if (PJRT_Error* raw_error = api_->PJRT_Device_MemoryStats(&args)) {
    const Error error = take_error(api_, raw_error, "memory statistics");
    if (error.kind() == ErrorKind::kNotImplemented) return std::nullopt;
    throw error;
  }
  const auto optional = [](bool is_set, int64_t value) {
    return is_set ? std::optional<int64_t>(value) : std::nullopt;
  };
  DeviceMemoryStats stats;
  stats.bytes_in_use = args.bytes_in_use;
  stats.peak_bytes_in_use = optional(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use);
  stats.num_allocs = optional(args.num_allocs_is_set, args.num_allocs);
  stats.largest_alloc_size = optional(args.largest_alloc_size_is_set, args.largest_alloc_size);
  stats.bytes_limit = optional(args.bytes_limit_is_set, args.bytes_limit);
  stats.bytes_reserved = optional(args.bytes_reserved_is_set, args.bytes_reserved);
  stats.peak_bytes_reserved = optional(args.peak_bytes_reserved_is_set, args.peak_bytes_reserved);
  stats.bytes_reservable_limit =
      optional(args.bytes_reservable_limit_is_set, args.bytes_reservable_limit);
  stats.largest_free_block_bytes =
      optional(args.largest_free_block_bytes_is_set, args.largest_free_block_bytes);
  stats.pool_bytes = optional(args.pool_bytes_is_set, args.pool_bytes);
  stats.peak_pool_bytes = optional(args.peak_pool_bytes_is_set, args.peak_pool_bytes);
  return stats;
}

std::string memory_kind(const PJRT_Api* api, PJRT_Memory* memory) {
  TT_PJRT_ARGS(PJRT_Memory_Kind, args);
  args.memory = memory;
  raise_if(api, api->PJRT_Memory_Kind(&args), "kind of a memory");
  return std::string(args.kind, args.kind_size);
}

}  // namespace torch_tpu::pjrt
