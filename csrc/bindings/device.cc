#include <pybind11/functional.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <tuple>
#include <variant>

#include "base/env.h"
#include "base/error.h"
#include "bindings/bindings.h"
#include "eager/autocast.h"
#include "eager/device_index.h"
#include "eager/generator.h"
#include "eager/hooks.h"
#include "eager/memory.h"
#include "eager/storage.h"
#include "eager/synchronize.h"
#include "runtime/runtime.h"

namespace torch_tpu {
namespace {

namespace py = pybind11;
using runtime::Runtime;

int checked_device(int index) {
  TORCH_CHECK(index >= 0 && index < Runtime::device_count(), "TPU error: invalid device ordinal ",
              index, ": there are ", Runtime::device_count(), " devices");
  return index;
}

void set_device(int index) {
  if (index >= 0) eager::set_current_device(checked_device(index));
}

int exchange_device(int index) {
  const int previous = eager::current_device();
  set_device(index);
  return previous;
}

void initialize() {
  eager::translated([] { Runtime::get(); });
}

void synchronize(int index) {
  checked_device(index);
  if (Runtime::started()) eager::translated([&] { eager::synchronize_device(index); });
}

py::dict device_properties(int index) {
  py::dict properties;
  eager::translated([&] {
    checked_device(index);
    Runtime* started = nullptr;
    {
      py::gil_scoped_release release;
      started = &Runtime::get();
    }
    const runtime::Capabilities& capabilities = started->capabilities();
    const pjrt::Device& device = started->device(index).pjrt();
    properties["name"] = device.kind();
    properties["platform"] = capabilities.platform_name;
    properties["platform_version"] = capabilities.platform_version;
    properties["plugin"] = capabilities.plugin_path;
    properties["api_version"] = py::make_tuple(0, capabilities.api_minor);
    properties["total_memory"] = eager::total_memory(index);
    properties["multi_processor_count"] = 1;
    py::dict attributes;
    for (const pjrt::NamedValue& attribute : device.description().attributes()) {
      std::visit([&](const auto& value) { attributes[py::str(attribute.name)] = py::cast(value); },
                 attribute.value);
    }
    properties["attributes"] = attributes;
  });
  return properties;
}

py::list default_generators() {
  py::list generators;
  for (int i = 0; i < Runtime::device_count(); ++i) {
    generators.append(py::cast(eager::default_generator(i)));
  }
  return generators;
}

void set_plugin_resolver(py::function resolve) {
  // Kept for ever: the client may start while the interpreter is going down.
  PyObject* function = resolve.release().ptr();
  Runtime::set_plugin_resolver([function]() -> runtime::PluginChoice {
    py::gil_scoped_acquire acquire;
    try {
      const auto [path, trusted, probe] =
          py::handle(function)().cast<std::tuple<std::string, bool, std::string>>();
      return {path, trusted, probe};
    } catch (const py::error_already_set& error) {
      const bool missing_here = error.matches(PyExc_NotImplementedError);
      fail(missing_here ? ErrorKind::kNotImplemented : ErrorKind::kUnavailable,
           py::str(error.value()).cast<std::string>());
    }
  });
}

void set_availability(py::function is_available) {
  PyObject* function = is_available.release().ptr();
  eager::set_availability([function] {
    py::gil_scoped_acquire acquire;
    return py::handle(function)().cast<bool>();
  });
}

py::list environment() {
  py::list table;
  for (const EnvVarInfo& info : env_table()) {
    py::dict row;
    row["name"] = info.name;
    row["kind"] = env_kind_name(info.kind);
    row["default"] = info.default_value;
    row["accepts"] = env_accepted_values(info.var);
    row["stage"] = info.stage;
    row["doc"] = info.doc;
    table.append(row);
  }
  return table;
}

py::list error_kinds() {
  py::list table;
  for (const ErrorKind kind : {
#define TT_ERROR_KIND(kind, python_type, meaning) ErrorKind::k##kind,
#include "base/error_kinds.def"
#undef TT_ERROR_KIND
       }) {
    table.append(py::make_tuple(error_kind_name(kind), python_exception_name(kind),
                                error_kind_meaning(kind)));
  }
  return table;
}

}  // namespace

void bind_device(py::module_& m) {
  m.def("_device_count", &Runtime::device_count);
  m.def("_current_device", &eager::current_device);
  m.def("_set_device", torch::wrap_pybind_function(set_device));
  m.def("_exchange_device", torch::wrap_pybind_function(exchange_device));
  m.def("_is_initialized", &Runtime::started);
  m.def("_is_in_bad_fork", &Runtime::in_bad_fork);
  m.def("_init", torch::wrap_pybind_function_no_gil(initialize));
  m.def("_synchronize", torch::wrap_pybind_function_no_gil(synchronize));
  m.def("_shutdown_runtime", &Runtime::shut_down, py::call_guard<py::gil_scoped_release>());
  m.def("_device_properties", torch::wrap_pybind_function(device_properties));
  m.def("_default_generators", torch::wrap_pybind_function(default_generators));
  m.def("_ensure_autocast_default", &eager::ensure_autocast_default);
  m.def("_set_plugin_resolver", &set_plugin_resolver);
  m.def("_set_availability", &set_availability);
  m.def("_env_table", &environment);
  m.def("_error_kinds", &error_kinds);
}

}  // namespace torch_tpu
