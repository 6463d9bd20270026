// Registers every operator of the device with PyTorch's dispatcher.
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <algorithm>

#include "eager/argument_checks.h"
#include "eager/copy.h"
#include "eager/data_dependent.h"
#include "eager/factory.h"
#include "eager/fallback.h"
#include "eager/kernel.h"
#include "eager/views.h"

namespace torch_tpu::eager {
namespace {

// Composites that are one program already.
constexpr std::string_view kLeftComposite[] = {"clone", "_to_copy"};

// The kernel of an operator whose numbers are checked on every call.
class CheckedKernel final : public c10::OperatorKernel {
 public:
  explicit CheckedKernel(NumberCheck check) : check_(check) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    check_(op.schema(), stack->data() + (stack->size() - op.schema().arguments().size()));
    kernel_(op, keys, stack);
  }

 private:
  NumberCheck check_;
  Kernel kernel_;
};

torch::CppFunction kernel_of(const c10::OperatorHandle& op) {
  if (const NumberCheck check = number_check(op))
    return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<CheckedKernel>(check));
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>());
}

bool composite_implicit(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

void register_rules(torch::Library& m) {
  const auto& table = lowering::operator_table();
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const std::string short_name = table_name(name);
    if (std::ranges::find(kLeftComposite, short_name) != std::end(kLeftComposite)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    bool has_rule = table.find(short_name) != nullptr;
    if (!has_rule) {
      // In-place and `out=` forms of a rule.
      const auto functional = find_functional(*op);
      has_rule = functional && table.find(table_name(functional->operator_name())) != nullptr;
    }
    // A composite keeps its gradient formula only while nothing is registered for it.
    if (!has_rule || composite_implicit(*op) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
      continue;
    m.impl(short_name.c_str(), kernel_of(*op));
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("copy_", copy_);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("equal", equal);
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
  m.impl("resize_", resize_);
  register_views(m);
  register_data_dependent(m);
  register_rules(m);
}

// Copies settle these bits themselves; materialising first would come back here.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
  m.impl("_copy_from_and_resize", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace torch_tpu::eager
