# Compiler, linker and flags shared by every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

add_compile_options(-Wall -Wextra)
if(TORCH_TPU_WERROR)
  add_compile_options(-Werror)
endif()

if(TORCH_TPU_SANITIZE)
  set(sanitize_flags -fsanitize=address,undefined -fno-sanitize-recover=undefined)
  add_compile_options(${sanitize_flags} -fno-omit-frame-pointer -g1)
  add_link_options(${sanitize_flags})
endif()

find_program(TORCH_TPU_CCACHE ccache)
if(TORCH_TPU_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this sloppiness ccache refuses translation units that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${TORCH_TPU_CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  endif()
endif()

foreach(linker mold lld)
  find_program(TORCH_TPU_LINKER_${linker} NAMES ${linker} ld.${linker})
  if(TORCH_TPU_LINKER_${linker})
    add_link_options(-fuse-ld=${linker})
    break()
  endif()
endforeach()

# torch wheels use the C++11 std::string ABI; the core's static libraries must agree with them.
add_compile_definitions(_GLIBCXX_USE_CXX11_ABI=1)

find_package(Threads REQUIRED)
