#include "eager/meta_call.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/List.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <pybind11/pybind11.h>

#include "eager/argument_checks.h"
#include "eager/meta_functions.h"

namespace torch_tpu::eager {
namespace {

at::Tensor to_meta(const at::Tensor& t) {
  if (!t.defined()) return t;
  // Python numbers reach Python kernels as numbers, which only CPU tensors turn into.
  if (t.is_cpu() && t.unsafeGetTensorImpl()->is_wrapped_number()) return t;
  // As large as the original's storage, so that views and overlap are judged as they are.
  at::Tensor m = at::detail::empty_strided_meta(t.sizes(), t.strides(), t.scalar_type());
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    m.unsafeGetTensorImpl()->set_wrapped_number(true);
  return m;
}

c10::IValue convert(const c10::IValue& v, const ArgPlan& arg) {
  switch (arg.kind) {
    case ArgKind::kTensor:
      return v.isNone() ? v : c10::IValue(to_meta(v.toTensor()));
    case ArgKind::kTensorList: {
      if (v.isNone()) return v;
      c10::List<at::Tensor> out;
      for (const c10::IValue& item : v.toListRef()) out.push_back(to_meta(item.toTensor()));
      return out;
    }
    case ArgKind::kOptionalTensorList: {
      if (v.isNone()) return v;
      c10::List<std::optional<at::Tensor>> out;
      for (const c10::IValue& item : v.toListRef()) {
        out.push_back(item.isTensor() ? std::optional<at::Tensor>(to_meta(item.toTensor()))
                                      : std::nullopt);
      }
      return out;
    }
    case ArgKind::kGenerator:
      return {};
    case ArgKind::kDevice:
      return v.isNone() ? v : c10::IValue(c10::Device(c10::kMeta));
    default:
      return v;
  }
}

std::string message_of(const pybind11::error_already_set& error) {
  return pybind11::str(error.value());
}

}  // namespace

std::optional<std::vector<c10::IValue>> meta_call(const OpPlan& plan, const c10::IValue* args) {
  check_arguments(plan, args);
  if (!plan.has_meta) return std::nullopt;
  torch::jit::Stack stack;
  bool any_meta = false;
  for (size_t i = 0; i < plan.args.size(); ++i) {
    stack.push_back(convert(args[i], plan.args[i]));
    const auto& v = stack.back();
    any_meta |= v.isDevice() ||
                (v.isTensor() && v.toTensor().defined() && v.toTensor().is_meta()) ||
                v.isTensorList() || v.isOptionalTensorList();
    // A factory without a device would make a CPU tensor.
    if (plan.args[i].kind == ArgKind::kDevice && v.isNone()) {
      stack.back() = c10::Device(c10::kMeta);
      any_meta = true;
    }
  }
  if (!any_meta) return std::nullopt;
  c10::impl::ExcludeDispatchKeyGuard no_autograd(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  try {
    if (const auto direct = meta_functions().find(table_name(plan.op.operator_name()));
        direct != meta_functions().end()) {
      direct->second.callBoxed(plan.op, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
    } else {
      plan.op.callBoxed(&stack);
    }
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  } catch (pybind11::error_already_set& error) {
    // Many meta kernels are Python functions.
    pybind11::gil_scoped_acquire gil;
    // What they assert, kernels in C++ check.
    TORCH_CHECK(!error.matches(PyExc_AssertionError), message_of(error));
    // AttributeError: a meta kernel that forgot an optional argument may be None
    // (_thnn_fused_lstm_cell).
    if (!error.matches(PyExc_NotImplementedError) && !error.matches(PyExc_AttributeError)) throw;
    return std::nullopt;
  }
  return stack;
}

}  // namespace torch_tpu::eager
