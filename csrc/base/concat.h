#pragma once

#include <concepts>
#include <ranges>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

namespace torch_tpu {

namespace internal {

template <typename T>
concept TextLike = std::convertible_to<const T&, std::string_view>;

template <typename T>
void append_part(std::ostream& out, const T& part) {
  if constexpr (std::is_same_v<T, bool>) {
    out << (part ? "true" : "false");
  } else if constexpr (TextLike<T>) {
    out << std::string_view(part);
  } else if constexpr (std::ranges::input_range<const T&>) {
    out << '[';
    bool first = true;
    for (const auto& item : part) {
      if (!first) out << ", ";
      first = false;
      append_part(out, item);
    }
    out << ']';
  } else {
    out << part;
  }
}

}  // namespace internal

// Joins the parts as an ostream would; ranges print as "[2, 3]", booleans as words.
template <typename... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (internal::append_part(out, parts), ...);
  return std::move(out).str();
}

}  // namespace torch_tpu
