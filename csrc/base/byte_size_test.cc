#include "base/byte_size.h"

#include <gtest/gtest.h>

#include <limits>

namespace torch_tpu {
namespace {

TEST(ByteSize, ParsesNumbersWithAndWithoutUnits) {
  EXPECT_EQ(parse_byte_size("0"), 0);
  EXPECT_EQ(parse_byte_size("1048576"), 1 << 20);
  EXPECT_EQ(parse_byte_size("512M"), 512 << 20);
  EXPECT_EQ(parse_byte_size("2G"), int64_t{2} << 30);
  EXPECT_EQ(parse_byte_size("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(parse_byte_size("64 kb"), 64 << 10);
  EXPECT_EQ(parse_byte_size(" 7B "), 7);
  EXPECT_EQ(parse_byte_size("0.5K"), 512);
  EXPECT_EQ(parse_byte_size("1P"), int64_t{1} << 50);
  EXPECT_EQ(parse_byte_size("9223372036854775807"), std::numeric_limits<int64_t>::max());
}

TEST(ByteSize, RefusesEverythingElse) {
  for (const char* text :
       {"", " ", "G", "-1", "+1", "1X", "1GG", "1iB", "1GiBs", "1.2.3G", ".", "1e9", "0x10",
        "1 000", "9223372036854775808", "8192P", "99999999999.5P", "nan"}) {
    EXPECT_EQ(parse_byte_size(text), std::nullopt) << text;
  }
}

TEST(ByteSize, FormatsAsPyTorchDoes) {
  EXPECT_EQ(format_byte_size(0), "0 bytes");
  EXPECT_EQ(format_byte_size(1023), "1023 bytes");
  EXPECT_EQ(format_byte_size(1024), "1.00 KiB");
  EXPECT_EQ(format_byte_size(int64_t{3} << 29), "1.50 GiB");
  EXPECT_EQ(format_byte_size((1 << 20) - 1), "1.00 MiB");
  EXPECT_EQ(format_byte_size(int64_t{1} << 62), "4096.00 PiB");
}

}  // namespace
}  // namespace torch_tpu
