#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>

#include "base/hash.h"
#include "base/log.h"
#include "pjrt/elf_check.h"

namespace torch_tpu::pjrt {
namespace {

constexpr const char* kEntryPoint = "GetPjrtApi";

// Everything up to this slot is called unconditionally; what comes later is asked for first.
constexpr size_t kMinimumApiSize = offsetof(PJRT_Api, PJRT_Compile) + sizeof(void*);

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Plugin>> by_real_path;
};

Registry& registry() {
  // Never destroyed: plugins outlive every static.
  static auto& instance = *new Registry;
  return instance;
}

std::string real_path_of(const std::string& path) {
  TT_CHECK(!path.empty(), kUnavailable, "no path of a PJRT plugin was given");
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  TT_CHECK(resolved != nullptr, kUnavailable, "PJRT plugin ", path, ": ", std::strerror(errno));
  return resolved.get();
}

const PJRT_Api* open_api(const std::string& path, const std::string& real_path) {
  void* library = ::dlopen(real_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    fail(ErrorKind::kUnavailable, "PJRT plugin ", path,
         " can't be loaded: ", reason != nullptr ? reason : "no reason given");
  }
  void* entry = ::dlsym(library, kEntryPoint);
  if (entry == nullptr) {
    ::dlclose(library);
    fail(ErrorKind::kUnavailable, path, " is a shared library but no PJRT plugin: it has no ",
         kEntryPoint);
  }
  const PJRT_Api* api = reinterpret_cast<const PJRT_Api* (*)()>(entry)();
  TT_CHECK(api != nullptr, kUnavailable, "PJRT plugin ", path, ": ", kEntryPoint, " gave no API");
  TT_CHECK(api->struct_size >= kMinimumApiSize, kUnavailable, "PJRT plugin ", path,
           " is too old: its API struct has ", api->struct_size, " bytes, at least ",
           kMinimumApiSize, " are needed");
  const PJRT_Api_Version& version = api->pjrt_api_version;
  TT_CHECK(version.major_version == PJRT_API_MAJOR, kUnavailable, "PJRT plugin ", path,
           " speaks API version ", version.major_version, ".", version.minor_version,
           "; this build speaks ", PJRT_API_MAJOR, ".", PJRT_API_MINOR);
  return api;
}

void require_core_slots(const PJRT_Api* api, const std::string& path) {
  constexpr size_t first = offsetof(PJRT_Api, PJRT_Error_Destroy);
  constexpr size_t last = offsetof(PJRT_Api, PJRT_LoadedExecutable_Execute);
  for (size_t offset = first; offset <= last; offset += sizeof(void*)) {
    TT_CHECK(has_slot(api, offset), kUnavailable, "PJRT plugin ", path,
             " leaves out a basic function (slot ", (offset - first) / sizeof(void*), ")");
  }
}

void initialize(const PJRT_Api* api, const std::string& path) {
  TT_PJRT_ARGS(PJRT_Plugin_Initialize, args);
  if (PJRT_Error* error = api->PJRT_Plugin_Initialize(&args)) {
    fail(ErrorKind::kUnavailable, "PJRT plugin ", path, ": ",
         take_error(api, error, "initialisation failed").what());
  }
}

// Newer plugins have types that our enumeration can't hold.
int type_number(const PJRT_Extension_Base* extension) {
  static_assert(sizeof(extension->type) == sizeof(int));
  int number;
  std::memcpy(&number, &extension->type, sizeof number);
  return number;
}

}  // namespace

std::shared_ptr<Plugin> Plugin::load(const std::string& path) {
  const std::string real_path = real_path_of(path);
  std::lock_guard lock(registry().mutex);
  std::shared_ptr<Plugin>& known = registry().by_real_path[real_path];
  if (known == nullptr) {
    check_shared_object(real_path);
    const PJRT_Api* api = open_api(path, real_path);
    require_core_slots(api, path);
    initialize(api, path);
    known.reset(new Plugin(path, real_path, api));
    TT_LOG(kInfo, "loaded PJRT plugin ", path, ", API ", known->api_version().major, ".",
           known->api_version().minor);
  }
  return known;
}

Plugin::Plugin(std::string path, std::string real_path, const PJRT_Api* api)
    : path_(std::move(path)), real_path_(std::move(real_path)), api_(api) {
  TT_PJRT_ARGS(PJRT_Plugin_Attributes, args);
  if (PJRT_Error* error = api_->PJRT_Plugin_Attributes(&args)) {
    drop_error(api_, error, "attributes of the plugin");
    return;
  }
  attributes_.reserve(args.num_attributes);
  for (size_t i = 0; i < args.num_attributes; ++i) {
    attributes_.push_back(from_c(args.attributes[i]));
  }
}

const std::string& Plugin::sha256() const {
  std::call_once(sha256_once_, [this] { sha256_ = sha256_hex_of_file(real_path_); });
  return sha256_;
}

const NamedValue* Plugin::find_attribute(std::string_view name) const {
  const auto found = std::ranges::find(attributes_, name, &NamedValue::name);
  return found == attributes_.end() ? nullptr : &*found;
}

std::optional<int64_t> Plugin::xla_version() const {
  const NamedValue* attribute = find_attribute("xla_version");
  if (attribute == nullptr) return std::nullopt;
  const auto* version = std::get_if<int64_t>(&attribute->value);
  return version == nullptr ? std::nullopt : std::optional<int64_t>(*version);
}

std::optional<std::array<int64_t, 3>> Plugin::version_attribute(std::string_view name) const {
  const NamedValue* attribute = find_attribute(name);
  if (attribute == nullptr) return std::nullopt;
  const auto* list = std::get_if<std::vector<int64_t>>(&attribute->value);
  if (list == nullptr || list->size() != 3) return std::nullopt;
  return std::array<int64_t, 3>{(*list)[0], (*list)[1], (*list)[2]};
}

std::optional<std::array<int64_t, 3>> Plugin::stablehlo_current_version() const {
  return version_attribute("stablehlo_current_version");
}

std::optional<std::array<int64_t, 3>> Plugin::stablehlo_minimum_version() const {
  return version_attribute("stablehlo_minimum_version");
}

const PJRT_Extension_Base* Plugin::find_extension(int type) const {
  for (const PJRT_Extension_Base* extension = api_->extension_start; extension != nullptr;
       extension = extension->next) {
    if (type_number(extension) == type) return extension;
  }
  return nullptr;
}

std::vector<int> Plugin::extensions() const {
  std::vector<int> types;
  for (const PJRT_Extension_Base* extension = api_->extension_start; extension != nullptr;
       extension = extension->next) {
    types.push_back(type_number(extension));
  }
  return types;
}

}  // namespace torch_tpu::pjrt
