#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

using NamedValueData = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;

// An option for a plugin or an attribute from it, for example {"cpu_device_count", int64_t{4}}.
struct NamedValue {
  std::string name;
  NamedValueData value;

  bool operator==(const NamedValue&) const = default;
};

NamedValue from_c(const PJRT_NamedValue& value);
// The result points into `values`, which must outlive it.
std::vector<PJRT_NamedValue> to_c(std::span<const NamedValue> values);

// "name=i:4", "name=b:true", "name=f:0.5", "name=l:1,2", "name=s:text": how options travel to the
// probe's command line. parse_argument throws Error(kValue).
std::string to_argument(const NamedValue& value);
NamedValue parse_argument(std::string_view text);

// For messages and Python: the value alone.
std::string to_string(const NamedValueData& value);

}  // namespace torch_tpu::pjrt
