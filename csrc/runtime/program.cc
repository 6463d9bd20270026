#include "runtime/program.h"

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <unordered_map>

#include "base/concat.h"
#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "cache/process_cache.h"
#include "pjrt/compile_options.h"
#include "runtime/compile_threads.h"
#include "runtime/compiler_identity.h"
#include "runtime/excess_precision.h"
#include "runtime/numerics_probe.h"

namespace torch_tpu::runtime {
namespace {

using Overrides = std::map<std::string, pjrt::OptionValue>;

struct State {
  std::mutex mutex;
  std::unordered_map<std::string, ProgramRef> programs;  // by options and text
  std::set<std::string> unknown_options;
  CompileStats stats;
  int64_t dumped = 0;
};

std::atomic<bool> excess_precision{false};

State& state() {
  static auto* s = new State();
  return *s;
}

// PyTorch's numerics on XLA's CPU compiler, see docs/architecture.md: NaN survives min and max, and
// bfloat16 rounds after each operation.
Overrides overrides_for(const CompileRequest& request) {
  std::map<std::string, pjrt::OptionValue> o;
  o["xla_allow_excess_precision"] = allow_excess_precision();
  if (Runtime::get().capabilities().is_cpu) {
    o["xla_cpu_enable_fast_min_max"] = false;
    if (request.effort == Effort::kEager) o["xla_backend_optimization_level"] = int64_t{1};
    if (request.observable_extremum) o["xla_cpu_experimental_ynn_fusion_type"] = std::string();
  }
  return o;
}

// The name in "No such compile option: 'name'", or nothing.
std::string unknown_option(std::string_view message) {
  constexpr std::string_view kPrefix = "No such compile option: '";
  const size_t at = message.find(kPrefix);
  if (at == std::string_view::npos) return "";
  const size_t start = at + kPrefix.size();
  return std::string(message.substr(start, message.find('\'', start) - start));
}

void dump(const CompileRequest& request, int64_t number) {
  const std::string folder = env<EnvVar::kDumpPrograms>();
  if (folder.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::string name = request.name;
  for (char& c : name) {
    if (c == ':' || c == '/' || c == ' ') c = '_';
  }
  std::ofstream(folder + "/" + std::to_string(number) + "_" + name + ".mlir") << request.text;
}

}  // namespace

void set_allow_excess_precision(bool allow) { excess_precision = allow; }

bool allow_excess_precision() { return excess_precision; }

namespace {

CompileThreads& threads() {
  // As many as there are processors, at most a few: more only compete with what is running.
  static auto* t =
      new CompileThreads(std::clamp<size_t>(std::thread::hardware_concurrency(), 1, 8));
  return *t;
}

// For tests of the order of launches: makes compile times unpredictable.
void delay_for_tests() {
  const auto limit = env<EnvVar::kTestCompileDelay>();
  if (limit <= 0) return;
  thread_local std::minstd_rand generator(std::random_device{}());
  std::this_thread::sleep_for(
      std::chrono::milliseconds(std::uniform_int_distribution<int64_t>(0, limit)(generator)));
}

std::string serialize(const Overrides& overrides) {
  pjrt::CompileOptions options;
  options.portable = true;
  options.overrides = overrides;
  return options.serialize();
}

// f(overrides without those that the plugin doesn't know), which it tells by refusing them.
template <typename F>
auto with_known_options(Overrides overrides, F&& f) {
  State& s = state();
  for (;;) {
    {
      std::lock_guard lock(s.mutex);
      for (const std::string& name : s.unknown_options) overrides.erase(name);
    }
    try {
      return f(overrides);
    } catch (const Error& error) {
      const std::string name = unknown_option(error.what());
      if (name.empty() || !overrides.contains(name)) throw;
      TT_LOG(kInfo, "the plugin does not know the option ", name);
      std::lock_guard lock(s.mutex);
      s.unknown_options.insert(name);
    }
  }
}

pjrt::LoadedExecutable compile_now(const CompileRequest& request, const Overrides& overrides) {
  delay_for_tests();
  if (request.name == env<EnvVar::kTestFailCompile>())
    fail(ErrorKind::kInternal, "made to fail by TORCH_TPU_TEST_FAIL_COMPILE");
  const pjrt::Client& client = Runtime::get().client();
  // The key takes the options that are wanted, so that it is the same before and after the plugin
  // has refused one.
  auto [executable, source] = cache::process_cache().load_or_compile<pjrt::LoadedExecutable>(
      compiler_fingerprint().program_key(request.text, serialize(overrides)), request.name,
      [&](std::string_view payload) {
        return with_known_options(overrides, [&](const Overrides& known) {
          return client.deserialize(payload, serialize(known));
        });
      },
      [&] {
        const auto start = std::chrono::steady_clock::now();
        pjrt::LoadedExecutable compiled = with_known_options(
            overrides,
            [&](const Overrides& known) { return client.compile(request.text, serialize(known)); });
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        TT_LOG(kInfo, "compiled ", request.name, " in ", seconds * 1e3, " ms");
        State& s = state();
        std::lock_guard lock(s.mutex);
        s.stats.seconds += seconds;
        return compiled;
      },
      [](const pjrt::LoadedExecutable& compiled) { return compiled.serialize(); });
  TT_LOG(kDebug, request.name, ": ", cache::source_name(source));
  return std::move(executable);
}

// Warns of options without effect; not worth failing for.
void probe_numerics() {
  try {
    if (!Runtime::get().capabilities().is_cpu) return;
    for (const std::string& option : ineffective_numerics_options(/*with_options=*/true)) {
      write_log(LogLevel::kWarning,
                concat("the plugin's numerics are not PyTorch's: the compile option ", option,
                       " has no effect"));
    }
  } catch (const std::exception& error) {
    TT_LOG(kInfo, "the probe of the plugin's numerics failed: ", error.what());
  }
}

}  // namespace

std::vector<std::string> ineffective_numerics_options(bool with_options) {
  const Runtime& runtime = Runtime::get();
  CompileRequest request;
  request.observable_extremum = true;
  return with_known_options(
      with_options ? overrides_for(request) : Overrides(), [&](const Overrides& known) {
        return ineffective_options(runtime.client(), runtime.client().devices()[0].raw(), known);
      });
}

Program::Program(CompileRequest request, std::map<std::string, pjrt::OptionValue> overrides)
    : request_(std::move(request)), overrides_(std::move(overrides)) {}

std::optional<Error> Program::compile_if_waiting() const noexcept {
  State expected = State::kWaiting;
  if (!state_.compare_exchange_strong(expected, State::kCompiling)) return std::nullopt;
  State result = State::kCompiled;
  std::optional<Error> forbidden;
  try {
    executable_ = compile_now(request_, overrides_);
  } catch (const cache::CompilingForbidden& error) {
    forbidden = error;
    result = State::kWaiting;  // may be asked for again
  } catch (const Error& error) {
    TT_LOG(kDebug, "program that failed to compile:\n", request_.text);
    error_ = error.with_context(request_.name);
    result = State::kFailed;
  } catch (const std::exception& error) {
    error_ = Error(ErrorKind::kInternal, error.what());
    result = State::kFailed;
  }
  state_.store(result, std::memory_order_release);
  state_.notify_all();
  return forbidden;
}

void Program::finish() const {
  for (;;) {
    if (const auto forbidden = compile_if_waiting()) throw *forbidden;
    state_.wait(State::kCompiling, std::memory_order_acquire);
    const State state = state_.load(std::memory_order_acquire);
    if (state == State::kCompiled) return;
    if (state == State::kFailed) throw *error_;
  }
}

ProgramRef compile(const CompileRequest& request) {
  State& s = state();
  ProgramRef program;
  bool fresh = false;
  {
    std::lock_guard lock(s.mutex);
    ++s.stats.requests;
    pjrt::CompileOptions options;
    options.portable = true;
    options.overrides = overrides_for(request);
    std::string key = options.serialize() + request.text;
    if (auto it = s.programs.find(key); it != s.programs.end()) {
      ++s.stats.hits;
      program = it->second;
    } else {
      dump(request, s.dumped++);
      ++s.stats.compilations;
      program = std::make_shared<const Program>(request, std::move(options.overrides));
      s.programs.emplace(std::move(key), program);
      fresh = true;
    }
  }
  // Whoever forbids compiling wants to hear of it at the call.
  if (cache::process_cache().compiling_is_forbidden()) static_cast<void>(program->executable());
  if (!fresh) return program;
  static std::once_flag probed;
  std::call_once(probed, [] { threads().push_idle(&probe_numerics); });
  threads().push([program] { static_cast<void>(program->compile_if_waiting()); });
  return program;
}

void stop_compiling() { threads().stop(); }

CompileStats compile_stats() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  CompileStats stats = s.stats;
  stats.programs = static_cast<int64_t>(s.programs.size());
  return stats;
}

void clear_programs() {
  State& s = state();
  std::lock_guard lock(s.mutex);
  s.programs.clear();
}

}  // namespace torch_tpu::runtime
