#include "pjrt/client.h"

#include <exception>
#include <memory>

#include "base/log.h"
#include "pjrt/buffer_type.h"

namespace torch_tpu::pjrt {
namespace {

// XLA aborts on an invalid element type instead of refusing it.
void check_element_type(PJRT_Buffer_Type type) {
  TT_CHECK(bits_per_element(type) != 0, kInvalidArgument, "element type ", static_cast<int>(type),
           " (", buffer_type_name(type), ") can't be held by a buffer");
}

// Plugins don't check for null: they would crash.
void check_device(PJRT_Device* device) {
  TT_CHECK(device != nullptr, kInvalidArgument, "a buffer needs a device");
}

void check_dims(std::span<const int64_t> dims) {
  for (int64_t dim : dims) {
    TT_CHECK(dim >= 0, kInvalidArgument, "a buffer can't have the negative size ", dim, " in ",
             dims);
  }
}

void run_on_delete(void*, void* user_arg) {
  const std::unique_ptr<std::function<void()>> callback(
      static_cast<std::function<void()>*>(user_arg));
  try {
    (*callback)();
  } catch (const std::exception& error) {
    TT_LOG(kError, "callback at the end of a buffer view threw: ", error.what());
  }
}

}  // namespace

Client Client::create(std::shared_ptr<Plugin> plugin, std::span<const NamedValue> options) {
  const PJRT_Api* api = plugin->api();
  const std::vector<PJRT_NamedValue> c_options = to_c(options);
  TT_PJRT_ARGS(PJRT_Client_Create, args);
  args.create_options = c_options.data();
  args.num_options = c_options.size();
  PJRT_Error* raw_error = nullptr;
  try {
    raw_error = api->PJRT_Client_Create(&args);
  } catch (const std::exception& thrown) {
    // XLA's 0.81 CPU plugin throws through the C API when an option has the wrong type.
    fail(ErrorKind::kUnavailable, "PJRT plugin ", plugin->path(),
         " threw an exception while making a client: ", thrown.what());
  }
  if (raw_error != nullptr) {
    const Error error = take_error(api, raw_error, "no client");
    const bool keeps_kind =
        error.kind() == ErrorKind::kInvalidArgument || error.kind() == ErrorKind::kOutOfMemory;
    fail(keeps_kind ? error.kind() : ErrorKind::kUnavailable, "PJRT plugin ", plugin->path(), ": ",
         error.what());
  }
  Client client(std::move(plugin), args.client);
  client.read_devices();
  return client;
}

void Client::read_devices() {
  TT_PJRT_ARGS(PJRT_Client_AddressableDevices, args);
  args.client = raw_;
  raise_if(api(), api()->PJRT_Client_AddressableDevices(&args), "devices of a client");
  devices_.reserve(args.num_addressable_devices);
  for (size_t i = 0; i < args.num_addressable_devices; ++i) {
    devices_.emplace_back(api(), args.addressable_devices[i]);
  }
}

Client::~Client() {
  if (raw_ == nullptr) return;
  TT_PJRT_ARGS(PJRT_Client_Destroy, args);
  args.client = raw_;
  if (PJRT_Error* error = api()->PJRT_Client_Destroy(&args)) {
    drop_error(api(), error, "destruction of a client");
  }
}

std::string Client::platform_name() const {
  TT_PJRT_ARGS(PJRT_Client_PlatformName, args);
  args.client = raw_;
  raise_if(api(), api()->PJRT_Client_PlatformName(&args), "platform of a client");
  return std::string(args.platform_name, args.platform_name_size);
}

std::string Client::platform_version() const {
  TT_PJRT_ARGS(PJRT_Client_PlatformVersion, args);
  args.client = raw_;
  raise_if(api(), api()->PJRT_Client_PlatformVersion(&args), "platform of a client");
  return std::string(args.platform_version, args.platform_version_size);
}

int Client::process_index() const {
  TT_PJRT_ARGS(PJRT_Client_ProcessIndex, args);
  args.client = raw_;
  raise_if(api(), api()->PJRT_Client_ProcessIndex(&args), "process of a client");
  return args.process_index;
}

std::vector<Device> Client::global_devices() const {
  TT_PJRT_ARGS(PJRT_Client_Devices, args);
  args.client = raw_;
  raise_if(api(), api()->PJRT_Client_Devices(&args), "devices of a client");
  std::vector<Device> devices;
  devices.reserve(args.num_devices);
  for (size_t i = 0; i < args.num_devices; ++i) devices.emplace_back(api(), args.devices[i]);
  return devices;
}

LoadedExecutable Client::compile(std::string_view program, std::string_view options) const {
  // XLA aborts on them: no replicas to build for.
  TT_CHECK(!options.empty(), kInvalidArgument, "compilation without compile options");
  static constexpr std::string_view kFormat = "mlir";
  PJRT_Program c_program{};
  c_program.struct_size = PJRT_Program_STRUCT_SIZE;
  c_program.code = const_cast<char*>(program.data());  // read only here
  c_program.code_size = program.size();
  c_program.format = kFormat.data();
  c_program.format_size = kFormat.size();
  TT_PJRT_ARGS(PJRT_Client_Compile, args);
  args.client = raw_;
  args.program = &c_program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  raise_if(api(), api()->PJRT_Client_Compile(&args), "compilation failed");
  return LoadedExecutable(api(), args.executable);
}

LoadedExecutable Client::deserialize(std::string_view bytes, std::string_view options) const {
  TT_PJRT_REQUIRE(api(), PJRT_Executable_DeserializeAndLoad);
  TT_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad, args);
  args.client = raw_;
  args.serialized_executable = bytes.data();
  args.serialized_executable_size = bytes.size();
  if (!options.empty()) {
    args.overridden_serialized_compile_options = options.data();
    args.overridden_serialized_compile_options_size = options.size();
  }
  raise_if(api(), api()->PJRT_Executable_DeserializeAndLoad(&args), "loading an executable failed");
  return LoadedExecutable(api(), args.loaded_executable);
}

TransferredBuffer Client::buffer_from_host(const void* data, PJRT_Buffer_Type type,
                                           std::span<const int64_t> dims,
                                           std::span<const int64_t> byte_strides,
                                           PJRT_Device* device,
                                           HostBufferSemantics semantics) const {
  check_element_type(type);
  check_dims(dims);
  check_device(device);
  TT_CHECK(byte_strides.empty() || byte_strides.size() == dims.size(), kInvalidArgument,
           "copy to the device: ", byte_strides.size(), " strides for ", dims.size(),
           " dimensions");
  // An empty array may have no address, which plugins needn't expect.
  static constexpr char kNothing[64] = {};
  if (data == nullptr && dense_host_bytes(type, dims) == 0) data = kNothing;
  TT_CHECK(data != nullptr, kInvalidArgument, "copy to the device: no host address for ", dims);
  TT_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer, args);
  args.client = raw_;
  args.data = data;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.byte_strides = byte_strides.empty() ? nullptr : byte_strides.data();
  args.num_byte_strides = byte_strides.size();
  args.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(semantics);
  args.device = device;
  raise_if(api(), api()->PJRT_Client_BufferFromHostBuffer(&args), "copy to the device");
  return {Buffer(api(), args.buffer), Event(api(), args.done_with_host_buffer)};
}

Buffer Client::create_uninitialized(PJRT_Buffer_Type type, std::span<const int64_t> dims,
                                    PJRT_Device* device) const {
  TT_PJRT_REQUIRE(api(), PJRT_Client_CreateUninitializedBuffer);
  check_element_type(type);
  check_dims(dims);
  check_device(device);
  TT_PJRT_ARGS(PJRT_Client_CreateUninitializedBuffer, args);
  args.client = raw_;
  args.shape_dims = dims.data();
  args.shape_num_dims = dims.size();
  args.shape_element_type = type;
  args.device = device;
  raise_if(api(), api()->PJRT_Client_CreateUninitializedBuffer(&args), "allocation of a buffer");
  return Buffer(api(), args.buffer);
}

Buffer Client::create_view_of_device_buffer(void* pointer, PJRT_Buffer_Type type,
                                            std::span<const int64_t> dims, PJRT_Device* device,
                                            std::function<void()> on_delete) const {
  TT_PJRT_REQUIRE(api(), PJRT_Client_CreateViewOfDeviceBuffer);
  check_element_type(type);
  check_dims(dims);
  check_device(device);
  std::unique_ptr<std::function<void()>> callback;
  if (on_delete) callback = std::make_unique<std::function<void()>>(std::move(on_delete));
  // Without a layout plugins assume the default one, but older ones insist on being told.
  std::vector<int64_t> minor_to_major(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    minor_to_major[i] = static_cast<int64_t>(dims.size() - 1 - i);
  }
  PJRT_Buffer_MemoryLayout layout{};
  layout.struct_size = PJRT_Buffer_MemoryLayout_STRUCT_SIZE;
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  TT_PJRT_ARGS(PJRT_Client_CreateViewOfDeviceBuffer, args);
  args.client = raw_;
  args.device_buffer_ptr = pointer;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.element_type = type;
  args.layout = &layout;
  args.device = device;
  if (callback != nullptr) {
    args.on_delete_callback = run_on_delete;
    args.on_delete_callback_arg = callback.get();
  }
  raise_if(api(), api()->PJRT_Client_CreateViewOfDeviceBuffer(&args), "view of device memory");
  callback.release();  // run_on_delete owns it now
  return Buffer(api(), args.buffer);
}

}  // namespace torch_tpu::pjrt
