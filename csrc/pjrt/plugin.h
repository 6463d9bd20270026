#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/api.h"
#include "pjrt/named_value.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

struct ApiVersion {
  int major;
  int minor;
  auto operator<=>(const ApiVersion&) const = default;
};

// A loaded and initialised plugin. It stays loaded until the process ends: plugins start threads
// and can't be unloaded, so `api()` is valid for ever and the other wrappers keep just that.
class Plugin {
 public:
  // Loads once per file; later calls give the same object. Thread-safe.
  // Throws Error(kUnavailable) that says which step failed: missing, not a regular file, no ELF
  // shared object of this machine, truncated, refused by the loader, no PJRT plugin (no
  // GetPjrtApi), no API, too old, other major version, initialisation failed.
  static std::shared_ptr<Plugin> load(const std::string& path);

  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;

  const PJRT_Api* api() const { return api_; }
  // As given to the first load.
  const std::string& path() const { return path_; }
  ApiVersion api_version() const {
    return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version};
  }
  // Of the file, 64 hexadecimal digits; computed at the first call.
  const std::string& sha256() const;

  // What PJRT_Plugin_Attributes gives; empty when the plugin has none.
  const std::vector<NamedValue>& attributes() const { return attributes_; }
  const NamedValue* find_attribute(std::string_view name) const;
  std::optional<int64_t> xla_version() const;
  std::optional<std::array<int64_t, 3>> stablehlo_current_version() const;
  std::optional<std::array<int64_t, 3>> stablehlo_minimum_version() const;

  // The extension of that type (a PJRT_Extension_Type or a later number) or null; cast it to its
  // struct after checking its struct_size.
  const PJRT_Extension_Base* find_extension(int type) const;
  std::vector<int> extensions() const;

 private:
  Plugin(std::string path, std::string real_path, const PJRT_Api* api);
  std::optional<std::array<int64_t, 3>> version_attribute(std::string_view name) const;

  std::string path_;
  std::string real_path_;
  const PJRT_Api* api_;
  std::vector<NamedValue> attributes_;
  mutable std::once_flag sha256_once_;
  mutable std::string sha256_;
};

}  // namespace torch_tpu::pjrt
