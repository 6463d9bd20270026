#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/concat.h"

namespace torch_tpu {

// What went wrong, by the Python exception it becomes (error_kinds.def).
enum class ErrorKind {
#define TT_ERROR_KIND(kind, python_type, meaning) k##kind,
#include "base/error_kinds.def"
#undef TT_ERROR_KIND
};

// "OutOfMemory"
std::string_view error_kind_name(ErrorKind kind);
// "torch.OutOfMemoryError": the dotted Python type, a builtin when it has no dot.
std::string_view python_exception_name(ErrorKind kind);
std::string_view error_kind_meaning(ErrorKind kind);

// The only exception thrown by the torch-free layers. Copies share the message and don't throw,
// so that an asynchronous failure can be kept and rethrown from several places.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message)
      : kind_(kind), message_(std::make_shared<const std::string>(std::move(message))) {}

  ErrorKind kind() const noexcept { return kind_; }
  const char* what() const noexcept override { return message_->c_str(); }
  const std::string& message() const noexcept { return *message_; }

  // The same error as seen from further out: "context: message".
  Error with_context(std::string_view context) const {
    return Error(kind_, concat(context, ": ", *message_));
  }

 private:
  ErrorKind kind_;
  std::shared_ptr<const std::string> message_;
};

// Throws Error(kind, concat(parts...)).
template <typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(ErrorKind kind, const Parts&... parts) {
  throw Error(kind, concat(parts...));
}

// Throws unless the condition holds. The parts are evaluated either way: where they cost
// something, use TT_CHECK.
template <typename... Parts>
void check(bool condition, ErrorKind kind, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(kind, parts...);
}

}  // namespace torch_tpu

// TT_CHECK(condition, kind, parts...): kind is an ErrorKind enumerator without its scope, for
// example TT_CHECK(i < n, kIndex, "index ", i, " of ", n). Parts are evaluated on failure only.
#define TT_CHECK(condition, kind, ...)                                            \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::torch_tpu::fail(::torch_tpu::ErrorKind::kind __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
