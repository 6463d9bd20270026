#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/bindings.h"
#include "eager/fallback.h"
#include "eager/kernel.h"
#include "eager/settings.h"
#include "runtime/excess_precision.h"
#include "runtime/program.h"

namespace torch_tpu {

namespace py = pybind11;

namespace {

// The innermost frame that isn't PyTorch's own code.
std::string python_location() {
  if (!Py_IsInitialized()) return "";
  py::gil_scoped_acquire gil;
  py::object frame =
      py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(PyEval_GetFrame()));
  while (frame && !frame.is_none()) {
    const py::object code = frame.attr("f_code");
    const auto file = code.attr("co_filename").cast<std::string>();
    if (file.find("/torch/") == std::string::npos && file.find("/torch_tpu/_") == std::string::npos)
      return file + ":" + std::to_string(frame.attr("f_lineno").cast<int>()) + " in " +
             code.attr("co_name").cast<std::string>();
    frame = frame.attr("f_back");
  }
  return "";
}

}  // namespace

void bind_programs(py::module_& m) {
  eager::set_python_location(&python_location);
  m.def("_fallback_report", &eager::fallback_report);
  m.def("_clear_fallback_report", &eager::clear_fallback_report);
  m.def("_set_float32_matmul_precision",
        [](int passes) { eager::global_settings().float32_matmul = passes; });
  m.def("_get_float32_matmul_precision",
        [] { return eager::global_settings().float32_matmul.load(); });
  m.def("_set_launch_blocking", [](bool on) { eager::global_settings().launch_blocking = on; });
  m.def("_get_launch_blocking", [] { return eager::global_settings().launch_blocking.load(); });
  m.def("_set_allow_excess_precision", [](bool on) {
    eager::global_settings().allow_excess_precision = on;
    runtime::set_allow_excess_precision(on);
  });
  m.def("_get_allow_excess_precision",
        [] { return eager::global_settings().allow_excess_precision.load(); });
  m.def("_ineffective_numerics_options", &runtime::ineffective_numerics_options,
        py::arg("with_options") = true, py::call_guard<py::gil_scoped_release>());
  m.def("_compile_stats", [] {
    const runtime::CompileStats s = runtime::compile_stats();
    py::dict d;
    d["requests"] = s.requests;
    d["hits"] = s.hits;
    d["compilations"] = s.compilations;
    d["programs"] = s.programs;
    d["seconds"] = s.seconds;
    d["cached_calls"] = eager::num_cached_calls();
    return d;
  });
}

}  // namespace torch_tpu
