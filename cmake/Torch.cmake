# torch as plain include and library paths: find_package(Torch) would enable languages and look for
# back ends that we don't use. pybind11 is the copy that torch ships, so that both agree on its ABI.

torch_tpu_find_python_package(TORCH_DIR torch)

add_library(torch_tpu_torch INTERFACE)
target_include_directories(torch_tpu_torch SYSTEM INTERFACE
  ${TORCH_DIR}/include ${TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(torch_tpu_torch INTERFACE
  ${TORCH_DIR}/lib/libtorch_python.so
  ${TORCH_DIR}/lib/libtorch_cpu.so
  ${TORCH_DIR}/lib/libc10.so
  Python::Module)

# One precompiled header for all layers that see torch.
set(pch_source ${CMAKE_BINARY_DIR}/torch_pch/torch_pch.cc)
if(NOT EXISTS ${pch_source})
  file(WRITE ${pch_source} "// Only carries the precompiled header.\n")
endif()
add_library(torch_tpu_torch_pch STATIC ${pch_source})
target_include_directories(torch_tpu_torch_pch PUBLIC ${CSRC})
target_link_libraries(torch_tpu_torch_pch PUBLIC torch_tpu_torch Threads::Threads)
target_precompile_headers(torch_tpu_torch_pch PRIVATE
  <ATen/ATen.h>
  <torch/library.h>
  <torch/csrc/utils/pybind.h>
  <string> <vector> <unordered_map> <memory> <functional> <optional> <mutex>)

# PyTorch's structured meta functions as a table, from the headers of the PyTorch that is installed.
function(torch_tpu_meta_functions layer)
  set(table ${CMAKE_BINARY_DIR}/meta_functions.cc)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/meta_functions.py
            ${TORCH_DIR}/include/ATen/ops ${table}
    COMMAND_ERROR_IS_FATAL ANY)
  target_sources(torch_tpu_${layer} PRIVATE ${table})
  # Hundreds of wrappers that run on misses only: small is better than fast.
  set_source_files_properties(${table} PROPERTIES COMPILE_OPTIONS -O1)
endfunction()
