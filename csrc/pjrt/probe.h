#pragma once

#include <chrono>
#include <span>
#include <string>

#include "pjrt/named_value.h"

namespace torch_tpu::pjrt {

struct ProbeResult {
  bool ok = false;
  bool timed_out = false;
  int exit_code = -1;  // -1 when it didn't exit by itself
  int signal = 0;      // 0 unless a signal ended it
  double seconds = 0;
  std::string report;       // one line of JSON when ok
  std::string stderr_tail;  // the last 4 KiB

  // "killed by signal 11 (Segmentation fault)", followed by the tail; empty when ok.
  std::string failure() const;
};

// Loads the plugin in another process (`executable` is torch_tpu_pjrt_probe), makes a client with
// the options, compiles and runs a small program. A plugin that aborts, crashes or hangs takes that
// process down, not ours. Throws Error(kUnavailable) only when the process can't be started.
ProbeResult run_probe(const std::string& executable, const std::string& plugin_path,
                      std::span<const NamedValue> options = {},
                      std::chrono::milliseconds timeout = std::chrono::seconds(60));

// As above, but any failure is Error(kUnavailable) that says what happened; returns the report:
// {"platform": "cpu", "platform_version": ..., "api_version": [0, 81], "num_devices": 1, ...}.
std::string probe_plugin(const std::string& executable, const std::string& plugin_path,
                         std::span<const NamedValue> options = {},
                         std::chrono::milliseconds timeout = std::chrono::seconds(60));

}  // namespace torch_tpu::pjrt
