#include "base/error.h"

#include <gtest/gtest.h>

#include <vector>

namespace torch_tpu {
namespace {

TEST(Error, FailJoinsItsPartsAndKeepsTheKind) {
  const std::vector<int64_t> sizes = {2, 3};
  try {
    fail(ErrorKind::kIndex, "index ", 7, " of ", sizes, " is ", true, '!');
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIndex);
    EXPECT_STREQ(error.what(), "index 7 of [2, 3] is true!");
  }
}

TEST(Error, IsAStandardException) { EXPECT_THROW(fail(ErrorKind::kValue, "x"), std::exception); }

TEST(Error, CheckEvaluatesItsMessageOnlyOnFailure) {
  int evaluated = 0;
  const auto count = [&] { return ++evaluated; };
  TT_CHECK(true, kValue, count());
  EXPECT_EQ(evaluated, 0);
  EXPECT_THROW(TT_CHECK(false, kValue, count()), Error);
  EXPECT_EQ(evaluated, 1);
  EXPECT_NO_THROW(check(true, ErrorKind::kType, "fine"));
  EXPECT_THROW(check(false, ErrorKind::kType, "wrong"), Error);
}

TEST(Error, ContextComesBeforeTheMessage) {
  const Error outer = Error(ErrorKind::kOutOfMemory, "no room").with_context("aten::mm");
  EXPECT_EQ(outer.kind(), ErrorKind::kOutOfMemory);
  EXPECT_EQ(outer.message(), "aten::mm: no room");
}

TEST(Error, EveryKindNamesItsPythonException) {
  EXPECT_EQ(python_exception_name(ErrorKind::kInvalidArgument), "RuntimeError");
  EXPECT_EQ(python_exception_name(ErrorKind::kIndex), "IndexError");
  EXPECT_EQ(python_exception_name(ErrorKind::kOutOfMemory), "torch.OutOfMemoryError");
  EXPECT_EQ(python_exception_name(ErrorKind::kLinalg), "torch.linalg.LinAlgError");
  EXPECT_EQ(error_kind_name(ErrorKind::kNotImplemented), "NotImplemented");
  EXPECT_FALSE(error_kind_meaning(ErrorKind::kInternal).empty());
}

TEST(Concat, PrintsNestedRangesAndEmptyOnes) {
  EXPECT_EQ(concat(std::vector<std::vector<int>>{{1}, {}}), "[[1], []]");
  EXPECT_EQ(concat(std::string("a"), "b", std::string_view("c"), 1.5), "abc1.5");
}

}  // namespace
}  // namespace torch_tpu
