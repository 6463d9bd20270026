#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "eager/op_plan.h"

namespace torch_tpu::eager {

// Serves an operator without a rule: by its functional form and a copy, by PyTorch's decomposition
// as one program, or on the CPU (reported).
void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// An in-place or `out=` operator by its functional form, then a copy into the mutated arguments.
// False where there is no functional form. `functional` runs it: by default through the dispatcher.
bool call_functional(const OpPlan& plan, torch::jit::Stack& stack,
                     const std::function<void(torch::jit::Stack&)>& functional = {});

// Runs the operator on the CPU, with a warning the first time and an entry in the report.
// Throws NotImplementedError under TORCH_TPU_FALLBACK=error and inside traces.
void call_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// How often each operator ran on the CPU.
std::map<std::string, int64_t> fallback_report();
void clear_fallback_report();

// PyTorch's Python decomposition of an operator, run with the arguments on the stack; its returns
// replace them. False where there is none. Takes the GIL.
bool run_decomposition(const OpPlan& plan, torch::jit::Stack& stack);
bool has_decomposition(const c10::OperatorHandle& op);

}  // namespace torch_tpu::eager
