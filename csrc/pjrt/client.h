#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/device.h"
#include "pjrt/event.h"
#include "pjrt/executable.h"
#include "pjrt/named_value.h"
#include "pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// How long the plugin may read the host memory it is given.
enum class HostBufferSemantics {
  kImmutableOnlyDuringCall = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
  kImmutableUntilTransferCompletes = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
  // The buffer may alias host memory (CPU plugins: if 64-byte aligned), until it is destroyed.
  kImmutableZeroCopy = PJRT_HostBufferSemantics_kImmutableZeroCopy,
  // As above, and the plugin may write there when the buffer is donated.
  kMutableZeroCopy = PJRT_HostBufferSemantics_kMutableZeroCopy,
};

struct TransferredBuffer {
  Buffer buffer;
  Event done_with_host_buffer;
};

// Owns a PJRT_Client: the devices of one plugin. Everything made from it must be destroyed before
// it. Thread-safe as plugins are: compile, execute and transfers may run from any thread.
class Client {
 public:
  // Throws Error(kUnavailable) when there is no such device or it can't be had, kInvalidArgument
  // for options the plugin rejects. XLA's older CPU plugins ignore unknown options, and may abort
  // on a wrongly typed one: probe.h first.
  static Client create(std::shared_ptr<Plugin> plugin, std::span<const NamedValue> options = {});

  Client(Client&& other) noexcept
      : plugin_(std::move(other.plugin_)),
        raw_(std::exchange(other.raw_, nullptr)),
        devices_(std::move(other.devices_)) {}
  Client& operator=(Client&&) = delete;
  ~Client();

  const Plugin& plugin() const { return *plugin_; }
  const PJRT_Api* api() const { return plugin_->api(); }
  PJRT_Client* raw() const { return raw_; }

  // "cpu", "tpu".
  std::string platform_name() const;
  std::string platform_version() const;
  int process_index() const;
  // The addressable ones, in the plugin's order.
  const std::vector<Device>& devices() const { return devices_; }
  // Of all processes.
  std::vector<Device> global_devices() const;

  // `program` is StableHLO: text, bytecode or portable artifact. `options` are the bytes of
  // CompileOptions::serialize(). Throws kInvalidArgument or kInternal for a program that doesn't
  // compile, kOutOfMemory for one that can't fit.
  LoadedExecutable compile(std::string_view program, std::string_view options) const;
  // Loads what Executable::serialize gave; `options` replace those compiled with unless empty.
  LoadedExecutable deserialize(std::string_view bytes, std::string_view options = {}) const;

  // Copies or aliases a host array; `data` may be null for an empty one. `byte_strides` empty means
  // dense row-major; 0 and transposed strides are honoured.
  TransferredBuffer buffer_from_host(
      const void* data, PJRT_Buffer_Type type, std::span<const int64_t> dims,
      std::span<const int64_t> byte_strides, PJRT_Device* device,
      HostBufferSemantics semantics = HostBufferSemantics::kImmutableOnlyDuringCall) const;

  // Contents undefined; kNotImplemented where the plugin can't (can_create_uninitialized).
  Buffer create_uninitialized(PJRT_Buffer_Type type, std::span<const int64_t> dims,
                              PJRT_Device* device) const;
  bool can_create_uninitialized() const {
    return TT_PJRT_HAS(api(), PJRT_Client_CreateUninitializedBuffer);
  }

  // A buffer over memory of the caller's, dense and row-major. CPU plugins want 64-byte alignment.
  // `on_delete` runs when the plugin is done with it, on any thread; when this throws, never.
  Buffer create_view_of_device_buffer(void* pointer, PJRT_Buffer_Type type,
                                      std::span<const int64_t> dims, PJRT_Device* device,
                                      std::function<void()> on_delete) const;

 private:
  Client(std::shared_ptr<Plugin> plugin, PJRT_Client* raw)
      : plugin_(std::move(plugin)), raw_(raw) {}
  void read_devices();

  std::shared_ptr<Plugin> plugin_;
  PJRT_Client* raw_;
  std::vector<Device> devices_;
};

}  // namespace torch_tpu::pjrt
