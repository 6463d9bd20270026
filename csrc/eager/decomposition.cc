#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/tensor_memoryformats.h>

#include "eager/fallback.h"

namespace torch_tpu::eager {
namespace {

namespace py = pybind11;

// The decomposition of an overload, or a null object. Needs the GIL.
py::object find(const c10::OperatorHandle& op) {
  const std::string full = op.schema().name();
  const std::string name = full.substr(full.find("::") + 2);
  if (!full.starts_with("aten::")) return {};
  const std::string overload =
      op.schema().overload_name().empty() ? "default" : op.schema().overload_name();
  py::object table = py::module_::import("torch._decomp").attr("decomposition_table");
  py::object packet =
      py::getattr(py::module_::import("torch").attr("ops").attr("aten"), name.c_str(), py::none());
  if (packet.is_none()) return {};
  py::object target = py::getattr(packet, overload.c_str(), py::none());
  if (target.is_none()) return {};
  py::object found = table.attr("get")(target);
  if (found.is_none()) return {};
  return found;
}

py::object to_python(const c10::IValue& v, const ArgPlan& plan, const c10::Argument& argument) {
  if (v.isNone()) return py::none();
  if (plan.kind == ArgKind::kDType) {
    return py::reinterpret_borrow<py::object>(
        reinterpret_cast<PyObject*>(torch::getTHPDtype(v.toScalarType())));
  }
  if (plan.kind == ArgKind::kIgnored) {
    c10::TypePtr type = argument.real_type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (type->kind() == c10::TypeKind::MemoryFormatType) {
      return py::reinterpret_borrow<py::object>(
          torch::utils::getTHPMemoryFormat(v.toMemoryFormat()));
    }
    if (type->kind() == c10::TypeKind::LayoutType) {
      return py::reinterpret_borrow<py::object>(
          reinterpret_cast<PyObject*>(torch::getTHPLayout(v.toLayout())));
    }
  }
  return torch::jit::toPyObject(v);
}

bool is_default(const c10::IValue& v, const c10::Argument& argument) {
  if (!argument.default_value()) return false;
  const c10::IValue& d = *argument.default_value();
  if (v.isNone() || d.isNone()) return v.isNone() && d.isNone();
  if (v.isInt() && d.isInt()) return v.toInt() == d.toInt();
  if (v.isBool() && d.isBool()) return v.toBool() == d.toBool();
  if (v.isDouble() && d.isDouble()) return v.toDouble() == d.toDouble();
  return false;
}

}  // namespace

bool has_decomposition(const c10::OperatorHandle& op) {
  py::gil_scoped_acquire gil;
  return static_cast<bool>(find(op));
}

bool run_decomposition(const OpPlan& plan, torch::jit::Stack& stack) {
  py::gil_scoped_acquire gil;
  py::object function = find(plan.op);
  if (!function) return false;
  const auto& schema = plan.op.schema();
  const c10::IValue* args = stack.data() + (stack.size() - plan.args.size());
  py::list positional;
  py::dict named;
  bool by_name = false;
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const auto& argument = schema.arguments()[i];
    if (is_default(args[i], argument)) {
      by_name = true;  // later ones go by name
      continue;
    }
    py::object value = to_python(args[i], plan.args[i], argument);
    if (argument.kwarg_only() || by_name) {
      named[py::str(argument.name())] = value;
    } else {
      positional.append(value);
    }
  }
  py::object result = function(*positional, **named);
  torch::jit::drop(stack, plan.args.size());
  const auto& returns = schema.returns();
  if (returns.size() == 1) {
    stack.push_back(torch::jit::toIValue(result, returns[0].type()));
  } else {
    py::sequence items = py::reinterpret_borrow<py::sequence>(result);
    for (size_t i = 0; i < returns.size(); ++i)
      stack.push_back(torch::jit::toIValue(items[i], returns[i].type()));
  }
  return true;
}

}  // namespace torch_tpu::eager
