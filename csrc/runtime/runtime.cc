#include "runtime/runtime.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/byte_size.h"
#include "base/env.h"
#include "base/error.h"
#include "base/log.h"
#include "pjrt/probe.h"
#include "runtime/host_pool.h"
#include "runtime/program.h"

namespace torch_tpu::runtime {
namespace {

std::atomic<Runtime*> instance{nullptr};
std::atomic<bool> bad_fork{false};
std::mutex start_mutex;
PluginResolver& resolver() {
  static auto* r = new PluginResolver();
  return *r;
}

int count_tpu_nodes() {
  namespace fs = std::filesystem;
  std::error_code error;
  int count = 0;
  for (const char* folder : {"/dev", "/dev/vfio"}) {
    for (const auto& entry : fs::directory_iterator(folder, error)) {
      const std::string name = entry.path().filename();
      const bool accel =
          std::string_view(folder) == "/dev" && name.starts_with("accel") && name.size() > 5;
      const bool vfio =
          std::string_view(folder) == "/dev/vfio" && !name.empty() &&
          std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (accel || vfio) ++count;
    }
  }
  return count;
}

// Flags of the user are kept; ours come first so that the user's win.
void extend_xla_flags() {
  // Per-compile overrides cover the rest; this map can only be set here.
  const char* user = std::getenv("XLA_FLAGS");
  std::string flags = user != nullptr ? user : "";
  if (flags.find("xla_backend_extra_options") == std::string::npos) {
    flags = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters " + flags;
    setenv("XLA_FLAGS", flags.c_str(), 1);
  }
}

// Once more without `asynchronous` for a plugin that rejects it.
pjrt::Client create_client(const std::shared_ptr<pjrt::Plugin>& plugin,
                           std::vector<pjrt::NamedValue> options) {
  try {
    return pjrt::Client::create(plugin, options);
  } catch (const Error& error) {
    const auto added = std::find_if(options.begin(), options.end(), [](const auto& option) {
      return option.name == "asynchronous";
    });
    if (added == options.end() || error.kind() != ErrorKind::kInvalidArgument) throw;
    options.erase(added);
    return pjrt::Client::create(plugin, options);
  }
}

pjrt::Client start_client(const PluginChoice& choice, Capabilities& capabilities) {
  if (!choice.trusted && env<EnvVar::kPluginProbe>()) {
    pjrt::probe_plugin(choice.probe_executable, choice.path);
  }
  extend_xla_flags();
  if (std::getenv("TF_CPP_MIN_LOG_LEVEL") == nullptr) setenv("TF_CPP_MIN_LOG_LEVEL", "2", 1);
  std::shared_ptr<pjrt::Plugin> plugin = pjrt::Plugin::load(choice.path);
  std::vector<pjrt::NamedValue> options;
  if (choice.path.find("libtpu") == std::string::npos) {
    options.push_back({"cpu_device_count", int64_t{Runtime::device_count()}});
    // The launch queue has a thread already: programs run on it instead of hopping to another.
    options.push_back({"asynchronous", false});
  }
  pjrt::Client client = create_client(plugin, options);
  capabilities.platform_name = client.platform_name();
  capabilities.platform_version = client.platform_version();
  capabilities.plugin_path = choice.path;
  capabilities.api_minor = plugin->api_version().minor;
  capabilities.is_cpu = capabilities.platform_name == "cpu";
  capabilities.dense_row_major = capabilities.is_cpu;
  capabilities.host_pointers =
      capabilities.is_cpu && TT_PJRT_HAS(plugin->api(), PJRT_Buffer_UnsafePointer);
  return client;
}

}  // namespace

void Device::out_of_memory(int64_t bytes) {
  queue_.drain();
  graveyard_.sweep(memory_, /*wait=*/true);
  if (memory_.current_bytes.load() + bytes <= memory_.limit) return;
  memory_.out_of_memory.fetch_add(1);
  fail(ErrorKind::kOutOfMemory, "TPU out of memory. Tried to allocate ", format_byte_size(bytes),
       ". tpu:", index_, " has a total capacity of ", format_byte_size(memory_.limit), " of which ",
       format_byte_size(std::max<int64_t>(0, memory_.limit - memory_.current_bytes)), " is free; ",
       format_byte_size(memory_.current_bytes), " is held by ", memory_.current_buffers.load(),
       " buffers of this process (peak ", format_byte_size(memory_.peak_bytes),
       "). TORCH_TPU_MEMORY_LIMIT sets the capacity on a CPU plugin.");
}

void Runtime::set_plugin_resolver(PluginResolver r) { resolver() = std::move(r); }

bool Runtime::started() { return instance.load(std::memory_order_acquire) != nullptr; }

bool Runtime::in_bad_fork() { return bad_fork.load(); }

int Runtime::device_count() {
  static const int count = [] {
    const int nodes = count_tpu_nodes();
    if (std::getenv("LOCAL_RANK") != nullptr) return 1;
    if (nodes > 0 && !env_is_set(EnvVar::kPjrtPlugin)) return nodes;
    try {
      return static_cast<int>(env<EnvVar::kCpuDevices>());
    } catch (const Error& error) {
      write_log(LogLevel::kError, error.what());
      return 1;
    }
  }();
  return count;
}

Runtime& Runtime::get() {
  if (Runtime* r = instance.load(std::memory_order_acquire)) [[likely]]
    return *r;
  if (bad_fork.load()) {
    fail(ErrorKind::kUnavailable,
         "Cannot re-initialize TPU in forked subprocess. To use TPU with multiprocessing, you must "
         "use the 'spawn' "
         "start method");
  }
  check_environment();
  TT_CHECK(resolver(), kUnavailable, "no PJRT plugin was chosen: import torch_tpu first");
  // Before the lock: it takes the interpreter's, which another thread may hold while it waits here.
  PluginChoice choice = resolver()();
  std::lock_guard lock(start_mutex);
  if (Runtime* r = instance.load(std::memory_order_acquire)) return *r;
  // Never destroyed: plugins keep threads that outlive static destruction.
  auto* created = new Runtime(std::move(choice));
  pthread_atfork(nullptr, nullptr, [] {
    if (instance.exchange(nullptr) != nullptr) bad_fork.store(true);
  });
  instance.store(created, std::memory_order_release);
  std::atexit(&Runtime::shut_down);
  return *created;
}

Runtime::Runtime(PluginChoice choice) : client_(start_client(choice, capabilities_)) {
  int index = 0;
  const auto limit = env<EnvVar::kMemoryLimit>();
  for (const pjrt::Device& device : client_.devices()) {
    Device& d = devices_.emplace_back(index++, device, capabilities_);
    if (const auto stats = device.memory_stats(); stats && stats->bytes_limit)
      d.memory().limit = *stats->bytes_limit;
    if (limit && capabilities_.is_cpu) d.memory().limit = *limit;
  }
  TT_CHECK(!devices_.empty(), kUnavailable, "the PJRT plugin ", choice.path, " offers no device");
}

Device& Runtime::device(int index) {
  TT_CHECK(index >= 0 && index < num_devices(), kInvalidArgument,
           "TPU error: invalid device ordinal ", index, ": there are ", num_devices(), " devices");
  return devices_[static_cast<size_t>(index)];
}

PJRT_Buffer_Type buffer_type(DType dtype) {
  switch (dtype) {
    case DType::kPred:
      return PJRT_Buffer_Type_PRED;
    case DType::kS8:
      return PJRT_Buffer_Type_S8;
    case DType::kS16:
      return PJRT_Buffer_Type_S16;
    case DType::kS32:
      return PJRT_Buffer_Type_S32;
    case DType::kS64:
      return PJRT_Buffer_Type_S64;
    case DType::kU8:
      return PJRT_Buffer_Type_U8;
    case DType::kU16:
      return PJRT_Buffer_Type_U16;
    case DType::kU32:
      return PJRT_Buffer_Type_U32;
    case DType::kU64:
      return PJRT_Buffer_Type_U64;
    case DType::kF8E4M3FN:
      return PJRT_Buffer_Type_F8E4M3FN;
    case DType::kF8E4M3FNUZ:
      return PJRT_Buffer_Type_F8E4M3FNUZ;
    case DType::kF8E5M2:
      return PJRT_Buffer_Type_F8E5M2;
    case DType::kF8E5M2FNUZ:
      return PJRT_Buffer_Type_F8E5M2FNUZ;
    case DType::kF8E8M0FNU:
      return PJRT_Buffer_Type_F8E8M0FNU;
    case DType::kF16:
      return PJRT_Buffer_Type_F16;
    case DType::kBF16:
      return PJRT_Buffer_Type_BF16;
    case DType::kF32:
      return PJRT_Buffer_Type_F32;
    case DType::kF64:
      return PJRT_Buffer_Type_F64;
    case DType::kC64:
      return PJRT_Buffer_Type_C64;
    case DType::kC128:
      return PJRT_Buffer_Type_C128;
  }
  return PJRT_Buffer_Type_INVALID;
}

void Runtime::shut_down() {
  Runtime* runtime = instance.load(std::memory_order_acquire);
  if (runtime == nullptr) return;
  stop_compiling();
  for (Device& device : runtime->devices_) device.queue().stop();
}

BufferRef Runtime::to_device(const void* data, const TensorType* type, Device& device) {
  const int64_t bytes = type->numel() * byte_size(type->dtype);
  device.reserve(bytes);
  if (const auto size = static_cast<size_t>(bytes);
      capabilities_.is_cpu && size >= HostPool::kMinBytes) {
    void* block = HostPool::get().take(size);
    std::memcpy(block, data, size);
    pjrt::TransferredBuffer t = [&] {
      try {
        // Immutable: donated memory would be given back here while it is still in use.
        return client_.buffer_from_host(block, buffer_type(type->dtype), type->shape, {},
                                        device.raw(),
                                        pjrt::HostBufferSemantics::kImmutableZeroCopy);
      } catch (const Error&) {
        HostPool::get().give(block, size);
        throw;
      }
    }();
    t.done_with_host_buffer.on_ready(
        [block, size](const Error*) { HostPool::get().give(block, size); });
    return std::make_shared<Buffer>(std::move(t.buffer), type, device);
  }
  pjrt::TransferredBuffer t =
      client_.buffer_from_host(data, buffer_type(type->dtype), type->shape, {}, device.raw(),
                               pjrt::HostBufferSemantics::kImmutableOnlyDuringCall);
  return std::make_shared<Buffer>(std::move(t.buffer), type, device);
}

void Runtime::synchronize(Device& device) {
  device.queue().drain();
  device.live().await_all();
  device.graveyard().sweep(device.memory(), /*wait=*/true);
}

void Runtime::to_host(const Buffer& buffer, void* dst) {
  if (buffer.bytes() == 0) return;
  buffer.await();
  if (const void* p = buffer.host_pointer()) {
    std::memcpy(dst, p, static_cast<size_t>(buffer.bytes()));
    return;
  }
  buffer.pjrt().to_host(dst, static_cast<size_t>(buffer.bytes())).await();
}

}  // namespace torch_tpu::runtime
