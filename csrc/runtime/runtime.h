#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "runtime/buffer.h"
#include "runtime/launch_queue.h"
#include "runtime/memory_stats.h"

namespace torch_tpu::runtime {

// What a plugin can do, asked once; nothing above this layer asks for a platform by name.
struct Capabilities {
  bool is_cpu = false;                  // forms and options of XLA's CPU compiler
  bool dense_row_major = false;         // buffers are dense and take any shape of equal bytes
  bool host_pointers = false;           // device memory can be read by the host once ready
  bool complete_debug_options = false;  // per-compile switches that need the plugin's own defaults
  std::string platform_name;
  std::string platform_version;
  std::string plugin_path;
  int api_minor = 0;
};

class Device {
 public:
  Device(int index, pjrt::Device device, const Capabilities& capabilities)
      : index_(index),
        device_(device),
        id_(device.id()),
        capabilities_(capabilities),
        queue_(*this) {}
  int index() const { return index_; }
  PJRT_Device* raw() const { return device_.raw(); }
  const pjrt::Device& pjrt() const { return device_; }
  int id() const { return id_; }
  MemoryStats& memory() { return memory_; }
  // Live buffers, for synchronisation: a linked list threaded through them.
  LiveBuffers& live() { return live_; }
  Graveyard& graveyard() { return graveyard_; }
  LaunchQueue& queue() { return queue_; }
  const Capabilities& capabilities() const { return capabilities_; }
  // Throws Error(kOutOfMemory) with a breakdown when `bytes` more would pass the device's limit,
  // once waiting launches have run and dead buffers are gone.
  void reserve(int64_t bytes) {
    if (memory_.current_bytes.load(std::memory_order_relaxed) + queue_.reserved() + bytes >
        memory_.limit) [[unlikely]] {
      out_of_memory(bytes);
    }
  }

 private:
  void out_of_memory(int64_t bytes);
  int index_;
  pjrt::Device device_;
  int id_;
  const Capabilities& capabilities_;
  MemoryStats memory_;
  LiveBuffers live_;
  Graveyard graveyard_;
  LaunchQueue queue_;
};

// Which plugin to load, decided outside (Python knows what is installed).
struct PluginChoice {
  std::string path;
  bool trusted = false;  // one of the plugins this project is tested with: no probe needed
  std::string probe_executable;
};
using PluginResolver = std::function<PluginChoice()>;

// The one client of the process, started at first use.
class Runtime {
 public:
  // Starts the client if need be. Throws Error(kUnavailable) saying what is missing and what to
  // install; a later call tries again. After a fork of a process that had started it: kUnavailable.
  static Runtime& get();
  static bool started();
  static bool in_bad_fork();
  static void set_plugin_resolver(PluginResolver resolver);
  // Devices of this process, constant from process start; never starts the client.
  static int device_count();

  const pjrt::Client& client() const { return client_; }
  const Capabilities& capabilities() const { return capabilities_; }
  Device& device(int index);
  int num_devices() const { return static_cast<int>(devices_.size()); }

  // Copies `type.numel()` elements from `data`, dense and row-major.
  BufferRef to_device(const void* data, const TensorType* type, Device& device);
  // Waits for every launch and live buffer of the device. Failures stay with the buffers.
  void synchronize(Device& device);
  // Ends the threads that compile and launch; at exit, before the plugin's own end.
  static void shut_down();
  // Copies the buffer's content, dense and row-major, to `dst`; waits.
  void to_host(const Buffer& buffer, void* dst);

 private:
  explicit Runtime(PluginChoice choice);
  Capabilities capabilities_;
  pjrt::Client client_;
  std::deque<Device> devices_;
};

PJRT_Buffer_Type buffer_type(DType dtype);

}  // namespace torch_tpu::runtime
