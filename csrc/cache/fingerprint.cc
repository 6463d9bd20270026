#include "cache/fingerprint.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/concat.h"

namespace torch_tpu::cache {
namespace {

// With the length in front, so that ("ab", "c") and ("a", "bc") differ.
void add_field(Sha256& hash, std::string_view field) {
  uint64_t size = field.size();
  std::array<uint8_t, 8> bytes;
  for (uint8_t& byte : bytes) {
    byte = static_cast<uint8_t>(size);
    size >>= 8;
  }
  hash.update(bytes.data(), bytes.size());
  hash.update(field);
}

// The text before and after the module's name.
std::pair<std::string_view, std::string_view> without_module_name(std::string_view text) {
  constexpr std::string_view kStart = "module @";
  if (!text.starts_with(kStart)) return {text, {}};
  size_t end = kStart.size();
  if (end < text.size() && text[end] == '"') {
    end = text.find('"', end + 1);
    if (end == std::string_view::npos) return {text, {}};
    ++end;
  } else {
    end = std::min(text.find_first_of(" {\n", end), text.size());
  }
  return {text.substr(0, kStart.size()), text.substr(end)};
}

std::string_view trim(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t");
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(" \t") + 1 - start);
}

std::string sorted_words(std::string_view text) {
  std::vector<std::string_view> words;
  while (!(text = trim(text)).empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    words.push_back(word);
    text.remove_prefix(word.size());
  }
  std::ranges::sort(words);
  std::string result;
  for (const std::string_view word : words) {
    result += word;
    result += ' ';
  }
  return result;
}

}  // namespace

std::string compiler_flags() {
  std::string flags;
  for (const char* name : {"XLA_FLAGS", "LIBTPU_INIT_ARGS"}) {
    const char* value = std::getenv(name);
    flags += concat(name, '=', value == nullptr ? "" : value, '\n');
  }
  return flags;
}

std::string cpu_description(std::string_view cpuinfo) {
  // x86 and Arm name them differently; whichever are there.
  constexpr std::array<std::string_view, 8> kFields = {
      "vendor_id",       "cpu family",  "model",    "stepping",
      "CPU implementer", "CPU variant", "CPU part", "CPU revision"};
  std::string description;
  std::string features;
  while (!cpuinfo.empty()) {
    const size_t end = cpuinfo.find('\n');
    const std::string_view line = cpuinfo.substr(0, end);
    cpuinfo.remove_prefix(end == std::string_view::npos ? cpuinfo.size() : end + 1);
    if (trim(line).empty() && !description.empty()) break;  // the next processor
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = trim(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (std::ranges::find(kFields, name) != kFields.end()) {
      description += concat(name, '=', value, '\n');
    } else if (name == "flags" || name == "Features") {
      features = sorted_words(value);
    }
  }
  return concat(description, "features=", features, '\n');
}

const std::string& cpu_description() {
  static const std::string kDescription = [] {
    std::ifstream file("/proc/cpuinfo");
    return cpu_description(std::string((std::istreambuf_iterator<char>(file)), {}));
  }();
  return kDescription;
}

Fingerprint::Fingerprint(const Compiler& compiler) {
  Sha256 hash;
  add_field(hash, compiler.package_version);
  add_field(hash, compiler.plugin_sha256);
  add_field(hash, compiler.flags);
  add_field(hash, compiler.cpu);
  add_field(hash, compiler.device_kind);
  add_field(hash, compiler.topology);
  compiler_ = hash.digest();
}

Key Fingerprint::program_key(std::string_view text, std::string_view options) const {
  const auto [before, after] = without_module_name(text);
  Sha256 hash;
  add_field(hash, "program");
  hash.update(compiler_.data(), compiler_.size());
  add_field(hash, options);
  add_field(hash, before);
  add_field(hash, after);
  return {hash.digest()};
}

Key Fingerprint::call_key(std::string_view call, std::string_view code_sha256) const {
  Sha256 hash;
  add_field(hash, "call");
  hash.update(compiler_.data(), compiler_.size());
  add_field(hash, code_sha256);
  add_field(hash, call);
  return {hash.digest()};
}

}  // namespace torch_tpu::cache
