#include "runtime/compiler_identity.h"

#include "base/concat.h"
#include "cache/file_hash.h"
#include "cache/process_cache.h"
#include "runtime/runtime.h"

namespace torch_tpu::runtime {

const cache::Fingerprint& compiler_fingerprint() {
  static const cache::Fingerprint fingerprint = [] {
    const Runtime& runtime = Runtime::get();
    const Capabilities& capabilities = runtime.capabilities();
    cache::Cache& cache = cache::process_cache();
    cache.set_origin(concat("torch_tpu ", TORCH_TPU_VERSION, ", ", capabilities.platform_name));
    cache::Compiler compiler;
    compiler.package_version = TORCH_TPU_VERSION;
    compiler.plugin_sha256 = cache::file_sha256(capabilities.plugin_path, cache.host());
    compiler.flags = cache::compiler_flags();
    // A TPU's program doesn't depend on the host that compiled it.
    if (capabilities.is_cpu) compiler.cpu = cache::cpu_description();
    compiler.device_kind = runtime.client().devices().front().kind();
    // Portable programs run on one device, whichever.
    compiler.topology = concat(capabilities.platform_name, ": 1 of ", runtime.num_devices());
    return cache::Fingerprint(compiler);
  }();
  return fingerprint;
}

}  // namespace torch_tpu::runtime
