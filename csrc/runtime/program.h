#pragma once

#include <memory>
#include <string>
#include <vector>

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

// A compiled program, loaded for any one device of the process.
class Program {
 public:
  Program(pjrt::LoadedExecutable executable, CompileRequest request);
  const pjrt::LoadedExecutable& executable() const { return executable_; }
  const std::string& text() const { return request_.text; }
  const std::string& name() const { return request_.name; }

 private:
  pjrt::LoadedExecutable executable_;
  CompileRequest request_;
};

using ProgramRef = std::shared_ptr<const Program>;

// Compiles, or gives the program already compiled from the same text with the same options.
// Throws Error of the plugin's kind with the name of the program.
ProgramRef compile(const CompileRequest& request);

struct CompileStats {
  int64_t requests = 0;
  int64_t hits = 0;
  int64_t compilations = 0;
  int64_t programs = 0;
  double seconds = 0;
};
CompileStats compile_stats();
void clear_programs();

}  // namespace torch_tpu::runtime
