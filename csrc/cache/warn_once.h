#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace torch_tpu::cache {

using WarningSink = std::function<void(std::string_view message)>;

// Where warnings go; stderr, whatever the log level, until set. Called from any thread. Gives the
// sink that was there before.
WarningSink set_warning_sink(WarningSink sink);

// Tells the sink the first time that `kind` occurs in this process, the log (level info) each time.
// Nothing that befalls a cache may fail the program, so this is all that is ever heard of it.
void warn_once(std::string_view kind, std::string_view message) noexcept;

// As if nothing had been said yet.
void forget_warnings();

}  // namespace torch_tpu::cache
