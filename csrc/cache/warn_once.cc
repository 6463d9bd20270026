#include "cache/warn_once.h"

#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "base/log.h"

namespace torch_tpu::cache {
namespace {

struct State {
  std::mutex mutex;
  WarningSink sink = [](std::string_view message) { write_log(LogLevel::kWarning, message); };
  std::set<std::string, std::less<>> said;
};

State& state() {
  // Never destroyed: threads may warn while the process ends.
  static State* s = std::make_unique<State>().release();
  return *s;
}

}  // namespace

WarningSink set_warning_sink(WarningSink sink) {
  std::lock_guard lock(state().mutex);
  return std::exchange(state().sink, std::move(sink));
}

void warn_once(std::string_view kind, std::string_view message) noexcept {
  try {
    WarningSink sink;
    {
      std::lock_guard lock(state().mutex);
      if (state().said.emplace(kind).second) sink = state().sink;
    }
    if (sink) {
      sink(concat("compilation cache: ", message));
    } else {
      TT_LOG(kInfo, "compilation cache: ", message);
    }
  } catch (...) {
    return;  // no memory: a warning is not worth more than what it warns of
  }
}

void forget_warnings() {
  std::lock_guard lock(state().mutex);
  state().said.clear();
}

}  // namespace torch_tpu::cache
