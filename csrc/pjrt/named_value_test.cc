#include "pjrt/named_value.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace torch_tpu::pjrt {
namespace {

std::vector<NamedValue> one_of_each() {
  return {{"text", std::string("a=b:c")},
          {"empty", std::string()},
          {"number", int64_t{-7}},
          {"list", std::vector<int64_t>{1, 2, 3}},
          {"none", std::vector<int64_t>{}},
          {"fraction", 0.5f},
          {"yes", true},
          {"no", false}};
}

TEST(NamedValue, SurvivesTheRoundTripThroughC) {
  const auto values = one_of_each();
  const auto c_values = to_c(values);
  ASSERT_EQ(c_values.size(), values.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(from_c(c_values[i]), values[i]);
}

TEST(NamedValue, SurvivesTheRoundTripThroughAnArgument) {
  for (const NamedValue& value : one_of_each()) {
    EXPECT_EQ(parse_argument(to_argument(value)), value) << to_argument(value);
  }
  EXPECT_EQ(to_argument({"cpu_device_count", int64_t{4}}), "cpu_device_count=i:4");
}

TEST(NamedValue, MalformedArgumentsAreRefused) {
  for (const char* text : {"", "name", "=i:4", "name=", "name=i", "name=4", "name=i:", "name=i:4x",
                           "name=q:1", "name=b:maybe", "name=l:1,x", "name=f:much"}) {
    try {
      parse_argument(text);
      ADD_FAILURE() << text << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kValue);
    }
  }
}

}  // namespace
}  // namespace torch_tpu::pjrt
