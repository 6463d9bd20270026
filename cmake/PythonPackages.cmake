# The interpreter, and where it finds the packages that we build against. Nothing is imported:
# importing torch takes seconds and would autoload this very package.

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module
             OPTIONAL_COMPONENTS Development.Embed)

# Sets `out` to the package's folder; with OPTIONAL to nothing where it isn't installed.
function(torch_tpu_find_python_package out package)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/package_dir.py ${package}
    OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status ERROR_QUIET)
  if(NOT status EQUAL 0 AND NOT "OPTIONAL" IN_LIST ARGN)
    message(FATAL_ERROR "${Python_EXECUTABLE} has no package ${package}. Install the build "
                        "requirements: pip install -r requirements/build.txt")
  endif()
  set(${out} ${dir} PARENT_SCOPE)
endfunction()

torch_tpu_find_python_package(XLA_CPU_PJRT_DIR xla_plugins.xla_cpu_pjrt)
if(NOT EXISTS ${XLA_CPU_PJRT_DIR}/include/pjrt_c_api.h)
  message(FATAL_ERROR "${XLA_CPU_PJRT_DIR} has no include/pjrt_c_api.h; xla-cpu-pjrt==0.0.1 has")
endif()
add_library(torch_tpu_pjrt_headers INTERFACE)
target_include_directories(torch_tpu_pjrt_headers SYSTEM INTERFACE ${XLA_CPU_PJRT_DIR}/include)
