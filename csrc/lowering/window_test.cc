#include "lowering/window.h"

#include <gtest/gtest.h>

namespace torch_tpu::lowering {
namespace {

using Rows = std::vector<std::vector<double>>;

Rows dense(const Band& band) {
  Rows out(band.start.size(), std::vector<double>(static_cast<size_t>(band.size), 0));
  for (size_t o = 0; o < band.start.size(); ++o) {
    for (size_t t = 0; t < band.weights[o].size(); ++t) {
      out[o].at(static_cast<size_t>(band.start[o]) + t) += band.weights[o][t];
    }
  }
  return out;
}

Rows flipped(const Rows& rows, size_t columns) {
  Rows out(columns, std::vector<double>(rows.size(), 0));
  for (size_t o = 0; o < rows.size(); ++o) {
    for (size_t i = 0; i < columns; ++i) out[i][o] = rows[o][i];
  }
  return out;
}

TEST(Window, TransposedBandIsTheTransposedMatrix) {
  const Band overlapping{5, {0, 1, 3}, {{1, 2}, {3, 4, 5}, {6, 7}}};
  EXPECT_EQ(dense(transposed(overlapping)), flipped(dense(overlapping), 5));
  EXPECT_EQ(dense(transposed(transposed(overlapping))), dense(overlapping));
}

TEST(Window, TransposedBandHasEmptyRowsForElementsNobodyReads) {
  const Band skipping{6, {0, 4}, {{1}, {2}}};
  const Band back = transposed(skipping);
  EXPECT_EQ(back.rows(), 6);
  EXPECT_TRUE(back.weights[2].empty());
  EXPECT_EQ(dense(back), flipped(dense(skipping), 6));
}

class WindowProgram : public ::testing::Test {
 protected:
  Lowering b_{Settings{}};
  Value x_ = b_.parameter({DType::kF32, {2, 6}});
  std::string text(Value result) { return b_.finish({result}); }
  static bool has(const std::string& text, std::string_view op) {
    return text.find(op) != std::string::npos;
  }
};

TEST_F(WindowProgram, EquallySpacedPositionsAreASlice) {
  const std::string program = text(take(b_, x_, 1, {1, 3, 5}));
  EXPECT_TRUE(has(program, "slice"));
  EXPECT_FALSE(has(program, "gather"));
}

TEST_F(WindowProgram, RepeatedPositionsAreABroadcast) {
  const std::string program = text(take(b_, x_, 1, {0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_TRUE(has(program, "broadcast_in_dim"));
  EXPECT_FALSE(has(program, "gather"));
}

TEST_F(WindowProgram, OtherPositionsAreAGather) {
  Value taken = take(b_, x_, 1, {0, 0, 5});
  EXPECT_EQ(taken.shape(), (Shape{2, 3}));
  EXPECT_TRUE(has(text(taken), "gather"));
}

TEST_F(WindowProgram, EqualWindowsWithoutOverlapAreAReshapeAndASum) {
  Value averaged = apply_band(b_, x_, 1, {6, {0, 3}, {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}});
  EXPECT_EQ(averaged.shape(), (Shape{2, 2}));
  const std::string program = text(averaged);
  EXPECT_FALSE(has(program, "gather"));
  EXPECT_TRUE(has(program, "reduce"));
}

TEST_F(WindowProgram, EmptyBandGivesZeros) {
  EXPECT_EQ(apply_band(b_, x_, 0, {2, {0, 0, 0}, {{}, {}, {}}}).shape(), (Shape{3, 6}));
}

}  // namespace
}  // namespace torch_tpu::lowering
