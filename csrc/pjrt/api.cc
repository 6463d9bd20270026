#include "pjrt/api.h"

#include "base/log.h"

namespace torch_tpu::pjrt {
namespace {

ErrorKind kind_of(PJRT_Error_Code code) {
  switch (code) {
    case PJRT_Error_Code_INVALID_ARGUMENT:
      return ErrorKind::kInvalidArgument;
    case PJRT_Error_Code_RESOURCE_EXHAUSTED:
      return ErrorKind::kOutOfMemory;
    case PJRT_Error_Code_UNIMPLEMENTED:
      return ErrorKind::kNotImplemented;
    case PJRT_Error_Code_UNAVAILABLE:
      return ErrorKind::kUnavailable;
    default:
      return ErrorKind::kInternal;
  }
}

// Destroys the plugin's error however the function is left.
class ErrorOwner {
 public:
  ErrorOwner(const PJRT_Api* api, PJRT_Error* error) : api_(api), error_(error) {}
  ErrorOwner(const ErrorOwner&) = delete;
  ErrorOwner& operator=(const ErrorOwner&) = delete;
  ~ErrorOwner() {
    TT_PJRT_ARGS(PJRT_Error_Destroy, args);
    args.error = error_;
    api_->PJRT_Error_Destroy(&args);
  }

 private:
  const PJRT_Api* api_;
  PJRT_Error* error_;
};

ErrorKind kind_of(const PJRT_Api* api, PJRT_Error* error) {
  TT_PJRT_ARGS(PJRT_Error_GetCode, args);
  args.error = error;
  if (PJRT_Error* nested = api->PJRT_Error_GetCode(&args)) {
    ErrorOwner owner(api, nested);
    return ErrorKind::kInternal;
  }
  return kind_of(args.code);
}

}  // namespace

Error take_error(const PJRT_Api* api, PJRT_Error* error, const char* action) {
  ErrorOwner owner(api, error);
  TT_PJRT_ARGS(PJRT_Error_Message, args);
  args.error = error;
  api->PJRT_Error_Message(&args);
  return Error(kind_of(api, error),
               concat(action, ": ", std::string_view(args.message, args.message_size)));
}

void throw_error(const PJRT_Api* api, PJRT_Error* error, const char* action) {
  throw take_error(api, error, action);
}

void drop_error(const PJRT_Api* api, PJRT_Error* error, const char* action) noexcept {
  try {
    const Error taken = take_error(api, error, action);
    TT_LOG(kWarning, taken.what());
  } catch (...) {
    // Destructors call this: a failure to report a failure ends here.
  }
}

void throw_missing_slot(const PJRT_Api* api, const char* slot) {
  fail(ErrorKind::kNotImplemented, "the PJRT plugin (API ", api->pjrt_api_version.major_version,
       ".", api->pjrt_api_version.minor_version, ") has no ", slot);
}

}  // namespace torch_tpu::pjrt
