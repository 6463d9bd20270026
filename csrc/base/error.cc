#include "base/error.h"

namespace torch_tpu {
namespace {

struct KindInfo {
  std::string_view name;
  std::string_view python_type;
  std::string_view meaning;
};

constexpr KindInfo kKinds[] = {
#define TT_ERROR_KIND(kind, python_type, meaning) {#kind, python_type, meaning},
#include "base/error_kinds.def"
#undef TT_ERROR_KIND
};

}  // namespace

std::string_view error_kind_name(ErrorKind kind) { return kKinds[static_cast<int>(kind)].name; }

std::string_view python_exception_name(ErrorKind kind) {
  return kKinds[static_cast<int>(kind)].python_type;
}

std::string_view error_kind_meaning(ErrorKind kind) {
  return kKinds[static_cast<int>(kind)].meaning;
}

}  // namespace torch_tpu
