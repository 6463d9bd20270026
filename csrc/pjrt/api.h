#pragma once

#include <cstddef>

#include "base/error.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// Consumes the plugin's error. "action: message", kind by the plugin's code: RESOURCE_EXHAUSTED is
// kOutOfMemory, UNIMPLEMENTED kNotImplemented, INVALID_ARGUMENT kInvalidArgument, UNAVAILABLE
// kUnavailable, anything else kInternal.
Error take_error(const PJRT_Api* api, PJRT_Error* error, const char* action);

[[noreturn, gnu::cold]] void throw_error(const PJRT_Api* api, PJRT_Error* error,
                                         const char* action);

inline void raise_if(const PJRT_Api* api, PJRT_Error* error, const char* action) {
  if (error != nullptr) [[unlikely]]
    throw_error(api, error, action);
}

// For destructors: an error there has nobody to go to, it is logged and dropped.
void drop_error(const PJRT_Api* api, PJRT_Error* error, const char* action) noexcept;

[[noreturn, gnu::cold]] void throw_missing_slot(const PJRT_Api* api, const char* slot);

inline bool has_slot(const PJRT_Api* api, size_t offset) {
  return offset + sizeof(void*) <= api->struct_size &&
         *reinterpret_cast<void* const*>(reinterpret_cast<const char*>(api) + offset) != nullptr;
}

}  // namespace torch_tpu::pjrt

// Whether the plugin has a function, which may be newer than the plugin or left null.
#define TT_PJRT_HAS(api, function) \
  (::torch_tpu::pjrt::has_slot((api), offsetof(PJRT_Api, function)))

// Throws Error(kNotImplemented) naming the function unless the plugin has it.
#define TT_PJRT_REQUIRE(api, function)                         \
  do {                                                         \
    if (!TT_PJRT_HAS(api, function)) [[unlikely]]              \
      ::torch_tpu::pjrt::throw_missing_slot((api), #function); \
  } while (false)

// Declares a zeroed argument struct with its size filled in.
#define TT_PJRT_ARGS(function, name) \
  function##_Args name{};            \
  name.struct_size = function##_Args_STRUCT_SIZE
