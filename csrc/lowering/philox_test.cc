#include "lowering/philox.h"

#include <gtest/gtest.h>

namespace torch_tpu::lowering {
namespace {

Settings tpu() {
  Settings settings;
  settings.is_cpu = false;
  return settings;
}

TEST(Philox, DrawsOnATpuAreFreeOfTheRngOperation) {
  Lowering b{tpu()};
  Value words = b.random_words({3, 5});
  EXPECT_EQ(words.shape(), (Shape{3, 5}));
  EXPECT_EQ(words.dtype(), DType::kU32);
  EXPECT_EQ(b.finish({words}).find("rng_bit_generator"), std::string::npos);
}

TEST(Philox, EachDrawAdvancesTheProgramByTheBlocksItTakes) {
  Lowering b{Settings{}};
  b.random_words({4});
  EXPECT_EQ(b.random_blocks(), 1);
  b.random_words({2, 3});
  EXPECT_EQ(b.random_blocks(), 3);
  b.random_words({0});
  EXPECT_EQ(b.random_blocks(), 3);
}

TEST(Philox, ADrawAtAGivenStateDoesNotAdvanceTheProgram) {
  Lowering b{Settings{}};
  Value state = b.random_state();
  b.random_words_at(state, {100});
  EXPECT_EQ(b.random_blocks(), 0);
  EXPECT_EQ(state.shape(), (Shape{2}));
}

}  // namespace
}  // namespace torch_tpu::lowering
