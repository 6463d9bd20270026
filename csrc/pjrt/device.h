#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/api.h"
#include "pjrt/named_value.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// What the device's own allocator reports; only bytes_in_use is always there.
struct DeviceMemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> num_allocs;
  std::optional<int64_t> largest_alloc_size;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> bytes_reserved;
  std::optional<int64_t> peak_bytes_reserved;
  std::optional<int64_t> bytes_reservable_limit;
  std::optional<int64_t> largest_free_block_bytes;
  std::optional<int64_t> pool_bytes;
  std::optional<int64_t> peak_pool_bytes;
};

// A description of a device, present or only planned (topology.h). Owned by client or topology.
class DeviceDescription {
 public:
  DeviceDescription(const PJRT_Api* api, PJRT_DeviceDescription* raw) : api_(api), raw_(raw) {}

  int id() const;
  int process_index() const;
  std::string kind() const;
  std::string debug_string() const;
  std::string to_string() const;
  std::vector<NamedValue> attributes() const;

 private:
  const PJRT_Api* api_;
  PJRT_DeviceDescription* raw_;
};

// A device, owned by its client; a cheap handle.
class Device {
 public:
  Device(const PJRT_Api* api, PJRT_Device* raw) : api_(api), raw_(raw) {}

  PJRT_Device* raw() const { return raw_; }
  DeviceDescription description() const;
  int id() const { return description().id(); }
  std::string kind() const { return description().kind(); }
  std::string debug_string() const { return description().debug_string(); }
  int local_hardware_id() const;
  bool is_addressable() const;
  PJRT_Memory* default_memory() const;
  std::vector<PJRT_Memory*> memories() const;
  // Nothing where the plugin doesn't count (CPU).
  std::optional<DeviceMemoryStats> memory_stats() const;

  bool operator==(const Device& other) const { return raw_ == other.raw_; }

 private:
  const PJRT_Api* api_;
  PJRT_Device* raw_;
};

// "device", "pinned_host", "unpinned_host".
std::string memory_kind(const PJRT_Api* api, PJRT_Memory* memory);

}  // namespace torch_tpu::pjrt
