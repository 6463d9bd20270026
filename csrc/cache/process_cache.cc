#include "cache/process_cache.h"

#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include "base/env.h"
#include "base/error.h"

namespace torch_tpu::cache {
namespace {

std::string home_folder() {
  if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') return home;
  const passwd* user = ::getpwuid(::geteuid());
  return user == nullptr || user->pw_dir == nullptr ? "" : user->pw_dir;
}

// Where the user's caches are, by the XDG base directory specification; empty if nowhere.
std::string user_cache_folder() {
  if (const char* folder = std::getenv("XDG_CACHE_HOME"); folder != nullptr && *folder == '/')
    return folder;
  const std::string home = home_folder();
  return home.empty() ? "" : home + "/.cache";
}

std::string root_folder() {
  std::string folder = env<EnvVar::kCacheDir>();
  if (folder == "~" || folder.starts_with("~/")) return home_folder() + folder.substr(1);
  if (!folder.empty()) return folder;
  folder = user_cache_folder();
  return folder.empty() ? "" : folder + "/torch_tpu";
}

bool is_folder_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
  return name.front() != '.' && name.find_first_not_of(kAllowed) == std::string_view::npos;
}

}  // namespace

std::optional<HostTier::Options> host_tier_options() {
  const std::string name = env<EnvVar::kTier2CompilationCache>();
  if (name == "disabled") return std::nullopt;
  TT_CHECK(is_folder_name(name), kValue, env_info(EnvVar::kTier2CompilationCache).name, "=\"", name,
           "\" is not accepted; expected \"disabled\", or a name of letters, digits, _, - and .");
  HostTier::Options options;
  options.max_bytes = env<EnvVar::kCacheSize>();
  if (options.max_bytes == 0) return std::nullopt;
  const std::string root = root_folder();
  if (root.empty()) return std::nullopt;
  options.folder = root + "/" + name;
  return options;
}

Cache& process_cache() {
  static Cache* cache = [] {
    std::unique_ptr<HostTier> host;
    if (auto options = host_tier_options()) host = std::make_unique<HostTier>(std::move(*options));
    return std::make_unique<Cache>(std::move(host)).release();
  }();
  return *cache;
}

}  // namespace torch_tpu::cache
