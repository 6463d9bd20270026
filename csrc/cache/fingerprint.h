#pragma once

#include <string>
#include <string_view>

#include "cache/key.h"

namespace torch_tpu::cache {

// All that decides, besides program and options, what a compiler makes of a program and whether
// the result may run here. A plugin's own fingerprint is not among it: it is the same for
// executables of different plugins, which load into each other and compute wrong values.
struct Compiler {
  std::string package_version;
  std::string plugin_sha256;  // file_sha256 of the plugin
  std::string flags;          // compiler_flags() as they were when the plugin read them
  std::string cpu;            // cpu_description()
  std::string device_kind;
  std::string topology;  // number and arrangement of the devices compiled for
};

// What the environment tells XLA: the values of XLA_FLAGS and LIBTPU_INIT_ARGS.
std::string compiler_flags();

// Model and features of this machine's processor from the text of /proc/cpuinfo: code compiled for
// one processor may compute otherwise, or crash, on another. Features are sorted; frequencies and
// the number of processors don't count.
std::string cpu_description(std::string_view cpuinfo);
// The same of /proc/cpuinfo, read once.
const std::string& cpu_description();

// Gives keys for one compiler. Cheap to copy; thread-safe.
class Fingerprint {
 public:
  explicit Fingerprint(const Compiler& compiler);

  // `text` is StableHLO without locations and with numbered values, as ProgramBuilder prints it;
  // the name of the module doesn't count. `options` are the bytes of CompileOptions::serialize().
  Key program_key(std::string_view text, std::string_view options) const;

  // For the index from calls to programs: `call` is everything the call's program depends on,
  // `code_sha256` identifies the build of the lowerings (file_sha256 of the native module), which
  // the package version doesn't during development.
  Key call_key(std::string_view call, std::string_view code_sha256) const;

 private:
  Sha256::Digest compiler_;
};

}  // namespace torch_tpu::cache
