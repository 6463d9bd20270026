# One static library, one GoogleTest program and any number of test plugins per folder of csrc/.
#
# In a layer's folder, at any depth:
#   *.cc          the library torch_tpu_<layer>
#   *_test.cc     the program torch_tpu_<layer>_test
#   testing/*.cc  a shared library each, for tests to load
#   *_main.cc     left to torch_tpu_executable

set(CSRC ${CMAKE_SOURCE_DIR}/csrc)
set(TORCH_TPU_TEST_PLUGIN_DIR ${CMAKE_BINARY_DIR}/testing)
if(TORCH_TPU_DEV_INPLACE AND NOT TORCH_TPU_SANITIZE)
  set(TORCH_TPU_PACKAGE_DIR ${CMAKE_SOURCE_DIR}/torch_tpu)
else()
  set(TORCH_TPU_PACKAGE_DIR ${CMAKE_BINARY_DIR}/torch_tpu)
endif()

if(TORCH_TPU_BUILD_TESTS)
  find_package(GTest QUIET)
  if(GTest_FOUND)
    include(GoogleTest)
    torch_tpu_find_python_package(LAMMPS_DIR lammps_jax_pjrt_cpu OPTIONAL)
    torch_tpu_find_python_package(LIBTPU_DIR libtpu OPTIONAL)
    set(test_environment
      TORCH_TPU_TEST_PROBE=${TORCH_TPU_PACKAGE_DIR}/bin/torch_tpu_pjrt_probe
      TORCH_TPU_TEST_PLUGIN_XLA=${XLA_CPU_PJRT_DIR}/xla_cpu_pjrt.so)
    if(LAMMPS_DIR)
      list(APPEND test_environment
           TORCH_TPU_TEST_PLUGIN_LAMMPS=${LAMMPS_DIR}/pjrt_c_api_cpu_plugin.so)
    endif()
    if(LIBTPU_DIR)
      list(APPEND test_environment TORCH_TPU_TEST_PLUGIN_TPU=${LIBTPU_DIR}/libtpu.so)
    endif()
    set_property(GLOBAL PROPERTY TORCH_TPU_TEST_ENVIRONMENT ${test_environment})
  else()
    message(STATUS "GoogleTest not found: no C++ tests (Debian, Ubuntu: apt-get install libgtest-dev)")
  endif()
endif()

# Libraries whose objects register themselves from static initialisers are linked whole.
function(torch_tpu_link_layers target)
  set(override WHOLE_ARCHIVE)
  foreach(layer IN LISTS ARGN)
    target_link_libraries(${target} PRIVATE torch_tpu_${layer})
    get_target_property(type torch_tpu_${layer} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND override torch_tpu_${layer})
    endif()
  endforeach()
  list(LENGTH override length)
  if(length GREATER 1)
    list(JOIN override "," override)
    set_property(TARGET ${target} PROPERTY LINK_LIBRARY_OVERRIDE "${override}")
  endif()
endfunction()

function(torch_tpu_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "DEPS;EXTERNAL")
  set(target torch_tpu_${name})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CSRC}/${name}/*.cc)
  set(tests ${sources})
  set(plugins ${sources})
  list(FILTER sources EXCLUDE REGEX "(_test|_main)\\.cc$|/testing/[^/]*\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER plugins INCLUDE REGEX "/testing/[^/]*\\.cc$")
  list(FILTER plugins EXCLUDE REGEX "_test\\.cc$")

  list(TRANSFORM arg_DEPS PREPEND torch_tpu_ OUTPUT_VARIABLE dep_targets)
  if(arg_TORCH)
    list(APPEND arg_EXTERNAL torch_tpu_torch)
  endif()
  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    if(arg_TORCH)
      target_precompile_headers(${target} REUSE_FROM torch_tpu_torch_pch)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(${target} ${scope} ${CSRC})
  target_link_libraries(${target} ${scope} ${dep_targets} ${arg_EXTERNAL}
                        Threads::Threads ${CMAKE_DL_LIBS})

  if(NOT TORCH_TPU_BUILD_TESTS)
    return()
  endif()
  foreach(source IN LISTS plugins)
    torch_tpu_test_plugin(${name} ${source})
  endforeach()
  if(tests AND GTest_FOUND)
    torch_tpu_layer_test(${name} "${tests}" "${arg_DEPS}" "${arg_TORCH}")
  endif()
endfunction()

# A shared library named like its source. Tests find it, and the installed plugins and the probe,
# through variables TORCH_TPU_TEST_*: the test of aborting_plugin.cc reads
# TORCH_TPU_TEST_ABORTING_PLUGIN.
function(torch_tpu_test_plugin layer source)
  cmake_path(GET source STEM stem)
  set(target torch_tpu_testing_${stem})
  add_library(${target} MODULE ${source})
  target_link_libraries(${target} PRIVATE torch_tpu_${layer})
  set_target_properties(${target} PROPERTIES
    PREFIX "" OUTPUT_NAME ${stem} LIBRARY_OUTPUT_DIRECTORY ${TORCH_TPU_TEST_PLUGIN_DIR}
    CXX_VISIBILITY_PRESET default)
  set_property(GLOBAL APPEND PROPERTY TORCH_TPU_TEST_PLUGINS ${target})
  string(TOUPPER ${stem} variable)
  set_property(GLOBAL APPEND PROPERTY TORCH_TPU_TEST_ENVIRONMENT
    "TORCH_TPU_TEST_${variable}=${TORCH_TPU_TEST_PLUGIN_DIR}/${stem}.so")
endfunction()

function(torch_tpu_layer_test name sources deps uses_torch)
  set(target torch_tpu_${name}_test)
  add_executable(${target} ${sources})
  torch_tpu_link_layers(${target} ${deps} ${name})
  target_link_libraries(${target} PRIVATE GTest::gtest GTest::gtest_main)
  # GCC 12 takes an InlineVector that has grown for one that has not.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
  if(uses_torch)
    # libtorch_python needs the interpreter's symbols, which a test program has no use for.
    target_link_options(${target} PRIVATE -Wl,--unresolved-symbols=ignore-in-shared-libs)
    if(TARGET Python::Python)
      target_link_libraries(${target} PRIVATE Python::Python)
    endif()
  endif()
  get_property(plugins GLOBAL PROPERTY TORCH_TPU_TEST_PLUGINS)
  if(plugins)
    add_dependencies(${target} ${plugins})
  endif()
  get_property(environment GLOBAL PROPERTY TORCH_TPU_TEST_ENVIRONMENT)
  # Not through PROPERTIES, which takes lists apart differently in each version of CMake.
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}_environment.cmake)
  file(CONFIGURE OUTPUT ${script} @ONLY CONTENT [[
if(@target@_cases)
  set_tests_properties(${@target@_cases} PROPERTIES ENVIRONMENT "@environment@")
endif()
]])
  # PRE_TEST: asking a program for its tests is left to ctest, not to every build.
  gtest_discover_tests(${target} TEST_PREFIX "${name}." TEST_LIST ${target}_cases
                       DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()

function(torch_tpu_executable name source)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "DEPS")
  if(NOT EXISTS ${CSRC}/${source})
    message(STATUS "csrc/${source} is missing: no ${name}")
    return()
  endif()
  add_executable(${name} ${CSRC}/${source})
  list(TRANSFORM arg_DEPS PREPEND torch_tpu_)
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${TORCH_TPU_PACKAGE_DIR}/bin)
  install(TARGETS ${name} RUNTIME DESTINATION torch_tpu/bin)
endfunction()

# The bindings layer as an extension module, with every layer below it linked in.
function(torch_tpu_python_module name)
  get_target_property(type torch_tpu_bindings TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY")
    message(STATUS "csrc/bindings has no sources: no torch_tpu.${name}")
    return()
  endif()
  Python_add_library(${name} MODULE WITH_SOABI $<TARGET_OBJECTS:torch_tpu_bindings>)
  set_target_properties(${name} PROPERTIES
    LINKER_LANGUAGE CXX
    LIBRARY_OUTPUT_DIRECTORY ${TORCH_TPU_PACKAGE_DIR}
    INSTALL_RPATH "$ORIGIN/../torch/lib")
  torch_tpu_link_layers(${name} ${core} eager compiler distributed)
  target_link_libraries(${name} PRIVATE torch_tpu_torch)
  install(TARGETS ${name} LIBRARY DESTINATION torch_tpu)
endfunction()
