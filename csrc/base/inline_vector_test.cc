#include "base/inline_vector.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

namespace torch_tpu {
namespace {

using Vector = InlineVector<int64_t, 4>;

TEST(InlineVector, StaysInlineUpToItsCapacity) {
  Vector vector = {1, 2, 3, 4};
  EXPECT_TRUE(vector.is_inline());
  vector.push_back(5);
  EXPECT_FALSE(vector.is_inline());
  EXPECT_EQ(vector, (Vector{1, 2, 3, 4, 5}));
}

TEST(InlineVector, CopiesAreIndependentAndMovesLeaveItEmpty) {
  for (size_t size : {0, 3, 9}) {
    Vector vector(size, 7);
    Vector copy = vector;
    const Vector moved = std::move(vector);
    EXPECT_EQ(moved, copy);
    EXPECT_TRUE(vector.empty());
    vector.push_back(1);
    EXPECT_EQ(vector, Vector{1});
    vector = copy;
    EXPECT_EQ(vector, moved);
    copy = std::move(vector);
    EXPECT_EQ(copy, moved);
  }
}

TEST(InlineVector, PushingOneOfItsOwnElementsWhileGrowingIsSafe) {
  Vector vector = {1, 2, 3, 4};
  vector.push_back(vector.front());
  EXPECT_EQ(vector.back(), 1);
  Vector filled = {9, 2, 3, 4};
  filled.resize(40, filled.front());
  EXPECT_EQ(filled.back(), 9);
}

TEST(InlineVector, BehavesAsStdVectorUnderRandomOperations) {
  std::mt19937 random(1);
  Vector vector;
  std::vector<int64_t> model;
  for (int step = 0; step < 20000; ++step) {
    const auto value = static_cast<int64_t>(random() % 100);
    const size_t position = model.empty() ? 0 : random() % model.size();
    switch (random() % 8) {
      case 0:
      case 1:
        vector.push_back(value);
        model.push_back(value);
        break;
      case 2:
        vector.insert(vector.begin() + position, value);
        model.insert(model.begin() + static_cast<std::ptrdiff_t>(position), value);
        break;
      case 3:
        if (!model.empty()) {
          vector.erase(vector.begin() + position);
          model.erase(model.begin() + static_cast<std::ptrdiff_t>(position));
        }
        break;
      case 4:
        if (!model.empty()) {
          vector.pop_back();
          model.pop_back();
        }
        break;
      case 5:
        vector.resize(random() % 12, value);
        model.resize(vector.size(), value);
        break;
      case 6:
        vector = Vector(std::span<const int64_t>(model));
        break;
      case 7:
        if (random() % 50 == 0) {
          vector.clear();
          model.clear();
        }
        break;
    }
    ASSERT_EQ(std::vector<int64_t>(vector.begin(), vector.end()), model);
  }
}

}  // namespace
}  // namespace torch_tpu
