#include "pjrt/topology.h"

namespace torch_tpu::pjrt {

Topology Topology::create(std::shared_ptr<Plugin> plugin, std::string_view name,
                          std::span<const NamedValue> options) {
  const PJRT_Api* api = plugin->api();
  TT_PJRT_REQUIRE(api, PJRT_TopologyDescription_Create);
  const std::vector<PJRT_NamedValue> c_options = to_c(options);
  TT_PJRT_ARGS(PJRT_TopologyDescription_Create, args);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = c_options.data();
  args.num_options = c_options.size();
  raise_if(api, api->PJRT_TopologyDescription_Create(&args), "no topology");
  return Topology(std::move(plugin), args.topology);
}

Topology::~Topology() {
  if (raw_ == nullptr) return;
  TT_PJRT_ARGS(PJRT_TopologyDescription_Destroy, args);
  args.topology = raw_;
  if (PJRT_Error* error = plugin_->api()->PJRT_TopologyDescription_Destroy(&args)) {
    drop_error(plugin_->api(), error, "destruction of a topology");
  }
}

std::string Topology::platform_name() const {
  TT_PJRT_ARGS(PJRT_TopologyDescription_PlatformName, args);
  args.topology = raw_;
  raise_if(plugin_->api(), plugin_->api()->PJRT_TopologyDescription_PlatformName(&args),
           "platform of a topology");
  return std::string(args.platform_name, args.platform_name_size);
}

std::string Topology::platform_version() const {
  TT_PJRT_ARGS(PJRT_TopologyDescription_PlatformVersion, args);
  args.topology = raw_;
  raise_if(plugin_->api(), plugin_->api()->PJRT_TopologyDescription_PlatformVersion(&args),
           "platform of a topology");
  return std::string(args.platform_version, args.platform_version_size);
}

std::vector<DeviceDescription> Topology::devices() const {
  TT_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions, args);
  args.topology = raw_;
  raise_if(plugin_->api(), plugin_->api()->PJRT_TopologyDescription_GetDeviceDescriptions(&args),
           "devices of a topology");
  std::vector<DeviceDescription> devices;
  devices.reserve(args.num_descriptions);
  for (size_t i = 0; i < args.num_descriptions; ++i) {
    devices.emplace_back(plugin_->api(), args.descriptions[i]);
  }
  return devices;
}

std::vector<NamedValue> Topology::attributes() const {
  TT_PJRT_ARGS(PJRT_TopologyDescription_Attributes, args);
  args.topology = raw_;
  raise_if(plugin_->api(), plugin_->api()->PJRT_TopologyDescription_Attributes(&args),
           "attributes of a topology");
  std::vector<NamedValue> attributes;
  attributes.reserve(args.num_attributes);
  for (size_t i = 0; i < args.num_attributes; ++i) {
    attributes.push_back(from_c(args.attributes[i]));
  }
  return attributes;
}

Executable Topology::compile(std::string_view program, std::string_view options) const {
  TT_PJRT_REQUIRE(plugin_->api(), PJRT_Compile);
  TT_CHECK(!options.empty(), kInvalidArgument, "compilation without compile options");
  static constexpr std::string_view kFormat = "mlir";
  PJRT_Program c_program{};
  c_program.struct_size = PJRT_Program_STRUCT_SIZE;
  c_program.code = const_cast<char*>(program.data());  // read only here
  c_program.code_size = program.size();
  c_program.format = kFormat.data();
  c_program.format_size = kFormat.size();
  TT_PJRT_ARGS(PJRT_Compile, args);
  args.topology = raw_;
  args.program = &c_program;
  args.compile_options = options.data();
  args.compile_options_size = options.size();
  raise_if(plugin_->api(), plugin_->api()->PJRT_Compile(&args), "compilation failed");
  return Executable(plugin_->api(), args.executable);
}

}  // namespace torch_tpu::pjrt
