#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "compiler/graph_runner.h"

namespace torch_tpu {

namespace py = pybind11;

namespace {

c10::IValue to_ivalue(const py::handle& value) {
  if (value.is_none()) return at::Tensor();
  if (THPVariable_Check(value.ptr())) return THPVariable_Unpack(value.ptr());
  if (py::isinstance<py::bool_>(value)) return value.cast<bool>();
  if (py::isinstance<py::int_>(value)) return value.cast<int64_t>();
  if (py::isinstance<py::float_>(value)) return value.cast<double>();
  if (torch::is_symint(value)) return value.cast<c10::SymInt>().guard_int(__FILE__, __LINE__);
  throw py::type_error("torch.compile(backend=\"tpu\"): a graph takes tensors and numbers, not " +
                       std::string(py::str(py::type::of(value))));
}

py::object to_object(const c10::IValue& value) {
  if (value.isTensor() && !value.toTensor().defined()) return py::none();
  return torch::jit::toPyObject(value);
}

// A Python graph: called with positional arguments, gives a sequence of outputs.
compiler::GraphRunner::Graph graph_of(py::object function) {
  // The object must die under the GIL, whoever lets go of it.
  std::shared_ptr<py::object> held(new py::object(std::move(function)), [](py::object* o) {
    py::gil_scoped_acquire gil;
    delete o;
  });
  return [held](const std::vector<c10::IValue>& inputs) {
    py::gil_scoped_acquire gil;
    py::list arguments;
    for (const c10::IValue& v : inputs) arguments.append(to_object(v));
    const py::object result = (*held)(*arguments);
    torch::jit::Stack out;
    if (py::isinstance<py::tuple>(result) || py::isinstance<py::list>(result)) {
      for (const py::handle& item : result) out.push_back(to_ivalue(item));
    } else {
      out.push_back(to_ivalue(result));
    }
    return out;
  };
}

}  // namespace

void bind_compiler(py::module_& m) {
  py::class_<compiler::GraphRunner>(m, "_GraphRunner")
      .def(py::init([](std::string name, py::object function) {
             return std::make_unique<compiler::GraphRunner>(std::move(name),
                                                            graph_of(std::move(function)));
           }),
           py::arg("name"), py::arg("function"))
      .def("__call__",
           [](compiler::GraphRunner& self, const py::args& arguments) {
             std::vector<c10::IValue> inputs;
             inputs.reserve(arguments.size());
             for (const py::handle& a : arguments) inputs.push_back(to_ivalue(a));
             std::vector<c10::IValue> outputs;
             {
               py::gil_scoped_release release;
               outputs = self.run(inputs);
             }
             py::tuple result(outputs.size());
             for (size_t i = 0; i < outputs.size(); ++i) result[i] = to_object(outputs[i]);
             return result;
           })
      .def_property_readonly("name", &compiler::GraphRunner::name)
      .def_property_readonly("programs", &compiler::GraphRunner::programs);
}

}  // namespace torch_tpu
