#include "compiler/graph_runner.h"

#include <ATen/core/List.h>
#include <torch/library.h>

#include "eager/call_lowering.h"
#include "eager/device_index.h"
#include "eager/trace.h"

namespace torch_tpu::compiler {
namespace {

// Gives graphs an operator's schema, so that keys are built as for any operator.
TORCH_LIBRARY(torch_tpu_internal, m) { m.def("graph(Tensor[] inputs) -> Tensor[]"); }

const eager::OpPlan& graph_plan() {
  static const eager::OpPlan plan(
      c10::Dispatcher::singleton().findSchemaOrThrow("torch_tpu_internal::graph", ""));
  return plan;
}

}  // namespace

GraphRunner::GraphRunner(std::string name, Graph graph)
    : name_(std::move(name)), graph_(std::move(graph)) {}

std::vector<c10::IValue> GraphRunner::run(const std::vector<c10::IValue>& inputs) {
  return eager::translated([&] {
    c10::Device device(c10::DeviceType::PrivateUse1,
                       static_cast<c10::DeviceIndex>(eager::current_device()));
    for (const c10::IValue& v : inputs) {
      if (v.isTensor() && v.toTensor().defined() && v.toTensor().is_privateuseone()) {
        device = v.toTensor().device();
        break;
      }
    }
    std::vector<c10::IValue> moved;
    c10::List<at::Tensor> tensors;
    for (const c10::IValue& v : inputs) {
      if (v.isTensor() && v.toTensor().defined() && v.toTensor().is_cpu()) {
        moved.emplace_back(v.toTensor().to(device));
      } else {
        moved.push_back(v);
      }
      if (moved.back().isTensor()) tensors.push_back(moved.back().toTensor());
    }
    const torch::jit::Stack stack = {tensors};
    eager::Call call;
    eager::gather(graph_plan(), stack.data(), call);
    for (const c10::IValue& v : moved) {
      if (!v.isTensor())
        call.key.push_back(v.isInt() ? static_cast<uint64_t>(v.toInt())
                                     : std::hash<double>()(v.toScalar().toDouble()));
    }
    const eager::Entry* entry = table_.find(call.key);
    if (entry == nullptr) {
      std::unique_ptr<eager::Entry> made = eager::compile_traced(
          call, [&] { return graph_(moved); }, runtime::Effort::kGraph, /*may_alias=*/true);
      made->key = call.key;
      made->origin = runtime::intern_origin(name_);
      entry = table_.insert(std::move(made));
    }
    std::vector<at::Tensor> results;
    eager::run(*entry, call, results);
    std::vector<c10::IValue> out;
    for (const eager::Entry::Return& r : entry->returns) {
      if (r.is_constant) {
        out.push_back(r.constant);
      } else {
        out.emplace_back(results[r.first]);
      }
    }
    return out;
  });
}

std::vector<std::string> GraphRunner::programs() const {
  std::vector<std::string> out;
  table_.for_each([&](const eager::Entry& entry) {
    if (entry.program) out.push_back(entry.program->text());
  });
  return out;
}

}  // namespace torch_tpu::compiler
