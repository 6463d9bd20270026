#include "pjrt/named_value.h"

#include <charconv>

#include "base/concat.h"
#include "base/error.h"

namespace torch_tpu::pjrt {
namespace {

template <typename... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

char letter_of(const NamedValueData& value) { return "silfb"[value.index()]; }

template <typename T>
T parse_number(std::string_view digits, std::string_view argument) {
  T value{};
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, value);
  TT_CHECK(result.ec == std::errc() && result.ptr == end, kValue, "option ", argument, ": \"",
           digits, "\" is no number");
  return value;
}

std::string join(const std::vector<int64_t>& items) {
  std::string text;
  for (int64_t item : items) text += (text.empty() ? "" : ",") + std::to_string(item);
  return text;
}

}  // namespace

NamedValue from_c(const PJRT_NamedValue& value) {
  NamedValue result{std::string(value.name, value.name_size), {}};
  switch (value.type) {
    case PJRT_NamedValue_kString:
      result.value = std::string(value.string_value, value.value_size);
      break;
    case PJRT_NamedValue_kInt64:
      result.value = value.int64_value;
      break;
    case PJRT_NamedValue_kInt64List:
      result.value =
          std::vector<int64_t>(value.int64_array_value, value.int64_array_value + value.value_size);
      break;
    case PJRT_NamedValue_kFloat:
      result.value = value.float_value;
      break;
    case PJRT_NamedValue_kBool:
      result.value = value.bool_value;
      break;
  }
  return result;
}

std::vector<PJRT_NamedValue> to_c(std::span<const NamedValue> values) {
  std::vector<PJRT_NamedValue> result;
  result.reserve(values.size());
  for (const NamedValue& value : values) {
    PJRT_NamedValue& c = result.emplace_back();
    c.struct_size = PJRT_NamedValue_STRUCT_SIZE;
    c.name = value.name.data();
    c.name_size = value.name.size();
    c.value_size = 1;
    std::visit(Overloaded{
                   [&](const std::string& text) {
                     c.type = PJRT_NamedValue_kString;
                     c.string_value = text.data();
                     c.value_size = text.size();
                   },
                   [&](int64_t number) {
                     c.type = PJRT_NamedValue_kInt64;
                     c.int64_value = number;
                   },
                   [&](const std::vector<int64_t>& list) {
                     c.type = PJRT_NamedValue_kInt64List;
                     c.int64_array_value = list.data();
                     c.value_size = list.size();
                   },
                   [&](float number) {
                     c.type = PJRT_NamedValue_kFloat;
                     c.float_value = number;
                   },
                   [&](bool flag) {
                     c.type = PJRT_NamedValue_kBool;
                     c.bool_value = flag;
                   },
               },
               value.value);
  }
  return result;
}

std::string to_string(const NamedValueData& value) {
  return std::visit(Overloaded{
                        [](const std::string& text) { return text; },
                        [](const std::vector<int64_t>& list) { return join(list); },
                        [](const auto& scalar) { return concat(scalar); },
                    },
                    value);
}

std::string to_argument(const NamedValue& value) {
  return concat(value.name, '=', letter_of(value.value), ':', to_string(value.value));
}

NamedValue parse_argument(std::string_view text) {
  const size_t equals = text.find('=');
  TT_CHECK(equals != std::string_view::npos && equals > 0 && text.size() >= equals + 3 &&
               text[equals + 2] == ':',
           kValue, "option \"", text, "\" is not of the form name=i:4 (types s, i, l, f, b)");
  NamedValue result{std::string(text.substr(0, equals)), {}};
  std::string_view value = text.substr(equals + 3);
  switch (text[equals + 1]) {
    case 's':
      result.value = std::string(value);
      break;
    case 'i':
      result.value = parse_number<int64_t>(value, text);
      break;
    case 'f':
      result.value = parse_number<float>(value, text);
      break;
    case 'b':
      TT_CHECK(value == "true" || value == "false", kValue, "option ", text,
               ": expected b:true or "
               "b:false");
      result.value = value == "true";
      break;
    case 'l': {
      std::vector<int64_t> list;
      while (!value.empty()) {
        const size_t comma = std::min(value.find(','), value.size());
        list.push_back(parse_number<int64_t>(value.substr(0, comma), text));
        value.remove_prefix(std::min(comma + 1, value.size()));
      }
      result.value = std::move(list);
      break;
    }
    default:
      fail(ErrorKind::kValue, "option ", text, ": type must be s, i, l, f or b");
  }
  return result;
}

}  // namespace torch_tpu::pjrt
