#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "pjrt/compile_options.h"
#include "pjrt/executable.h"
#include "runtime/runtime.h"

namespace torch_tpu::runtime {

// How much the compiler may spend: one eager operator, or a whole graph.
enum class Effort : uint8_t { kEager, kGraph };

struct CompileRequest {
  std::string text;  // StableHLO
  std::string name;  // for logs and dumps: "aten::add.Tensor"
  Effort effort = Effort::kEager;
  // The program has a maximum or minimum over elements whose NaN a user can see.
  bool observable_extremum = false;
};

// A program, compiled or waiting for the compiler, loaded for any one device of the process.
class Program {
 public:
  // `overrides` are the compile options that the request asks for.
  Program(CompileRequest request, std::map<std::string, pjrt::OptionValue> overrides);
  // Waits for the compiler, or compiles here where no other thread has begun. Throws Error of the
  // plugin's kind with the name of the program, the same at each call.
  const pjrt::LoadedExecutable& executable() const {
    if (state_.load(std::memory_order_acquire) != State::kCompiled) [[unlikely]]
      finish();
    return executable_;
  }
  bool compiled() const { return state_.load(std::memory_order_acquire) == State::kCompiled; }
  // Compiles unless somebody did or does; failures wait for executable(), but for that of a
  // compilation that is forbidden now, which is given back and leaves the program as it was.
  std::optional<Error> compile_if_waiting() const noexcept;
  const std::string& text() const { return request_.text; }
  const std::string& name() const { return request_.name; }

 private:
  enum class State : uint8_t { kWaiting, kCompiling, kCompiled, kFailed };
  void finish() const;

  CompileRequest request_;
  std::map<std::string, pjrt::OptionValue> overrides_;
  mutable std::atomic<State> state_{State::kWaiting};
  mutable pjrt::LoadedExecutable executable_;
  mutable std::optional<Error> error_;
};

using ProgramRef = std::shared_ptr<const Program>;

// The program of the same text and options, or a new one that is given to the compiler's threads.
ProgramRef compile(const CompileRequest& request);

struct CompileStats {
  int64_t requests = 0;
  int64_t hits = 0;
  int64_t compilations = 0;  // begun or waiting
  int64_t programs = 0;
  double seconds = 0;  // of compiling, over all threads
};
CompileStats compile_stats();
void clear_programs();
// Compile options that don't have the effect on the plugin's numerics that they are set for, found
// by running a program; without the options, those that are needed at all. CPU plugins are probed
// like this in the background when they are first used, and warned of.
std::vector<std::string> ineffective_numerics_options(bool with_options);
// Ends the compiler's threads, once they are through with what they are compiling. Programs that
// still wait are compiled by whoever needs them.
void stop_compiling();

}  // namespace torch_tpu::runtime
