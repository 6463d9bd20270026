#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pjrt/device.h"
#include "pjrt/executable.h"
#include "pjrt/named_value.h"
#include "pjrt/plugin.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// Owns a description of devices that need not exist, to compile for ("v5e:2x2").
class Topology {
 public:
  // Throws kNotImplemented where the plugin has no topologies, kInvalidArgument or kInternal for a
  // name it doesn't know.
  static Topology create(std::shared_ptr<Plugin> plugin, std::string_view name,
                         std::span<const NamedValue> options = {});

  Topology(Topology&& other) noexcept
      : plugin_(std::move(other.plugin_)), raw_(std::exchange(other.raw_, nullptr)) {}
  Topology& operator=(Topology&&) = delete;
  ~Topology();

  PJRT_TopologyDescription* raw() const { return raw_; }
  std::string platform_name() const;
  std::string platform_version() const;
  std::vector<DeviceDescription> devices() const;
  std::vector<NamedValue> attributes() const;

  // Compiles without a client; arguments as Client::compile.
  Executable compile(std::string_view program, std::string_view options) const;

 private:
  Topology(std::shared_ptr<Plugin> plugin, PJRT_TopologyDescription* raw)
      : plugin_(std::move(plugin)), raw_(raw) {}

  std::shared_ptr<Plugin> plugin_;
  PJRT_TopologyDescription* raw_;
};

}  // namespace torch_tpu::pjrt
