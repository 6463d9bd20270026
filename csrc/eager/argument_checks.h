#pragma once

#include <ATen/core/ivalue.h>

#include <memory>
#include <optional>

#include "eager/op_plan.h"

namespace torch_tpu::eager {

// Checks of shapes, types and memory overlap that PyTorch's CPU kernels make and its meta kernels
// don't, with PyTorch's exceptions and messages. What they look at is part of the call's key, so
// they are made where nothing is cached.
void check_arguments(const OpPlan& plan, const c10::IValue* args);

// A check of numbers that are operands of the program, not part of its key (the bounds of
// `uniform_`): to be made on every call, with the arguments in schema order.
using NumberCheck = void (*)(const c10::FunctionSchema& schema, const c10::IValue* args);
// The check of an operator, or null.
NumberCheck number_check(const c10::OperatorHandle& op);

}  // namespace torch_tpu::eager
