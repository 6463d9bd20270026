#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "eager/kernel.h"

namespace torch_tpu::compiler {

// A graph of ATen calls as one program per set of input types. The graph is a function over
// tensors, called once for each new set under a trace; afterwards only programs run. Inputs that
// the graph writes to are donated.
class GraphRunner {
 public:
  // `graph` gets the inputs and gives the outputs: tensors, undefined tensors or constants.
  using Graph = std::function<torch::jit::Stack(const std::vector<c10::IValue>&)>;

  GraphRunner(std::string name, Graph graph);

  // Inputs are tensors on one device, 0-d CPU tensors and integers. Thread-safe.
  std::vector<c10::IValue> run(const std::vector<c10::IValue>& inputs);

  const std::string& name() const { return name_; }
  // StableHLO text of every program made so far.
  std::vector<std::string> programs() const;

 private:
  std::string name_;
  Graph graph_;
  eager::EntryTable table_;
};

}  // namespace torch_tpu::compiler
