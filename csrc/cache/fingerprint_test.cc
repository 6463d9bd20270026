#include "cache/fingerprint.h"

#include <gtest/gtest.h>

#include <set>

namespace torch_tpu::cache {
namespace {

constexpr std::string_view kText = "module @program {\n  func.func public @main() {\n  }\n}\n";
const Compiler kCompiler{"1.0", "abcd", "XLA_FLAGS=\n", "features=avx2\n", "cpu", "1"};

TEST(Fingerprint, EqualInputsGiveEqualKeys) {
  EXPECT_EQ(Fingerprint(kCompiler).program_key(kText, "options"),
            Fingerprint(kCompiler).program_key(std::string(kText), "options"));
}

TEST(Fingerprint, EverythingThatDecidesAboutTheCodeIsPartOfTheKey) {
  std::set<Key> keys;
  size_t expected = 0;
  const auto add = [&](const Compiler& compiler, std::string_view text, std::string_view options) {
    keys.insert(Fingerprint(compiler).program_key(text, options));
    ++expected;
  };
  add(kCompiler, kText, "options");
  add(kCompiler, kText, "other options");
  add(kCompiler, "module @program {\n}\n", "options");
  for (auto field : {&Compiler::package_version, &Compiler::plugin_sha256, &Compiler::flags,
                     &Compiler::cpu, &Compiler::device_kind, &Compiler::topology}) {
    Compiler other = kCompiler;
    other.*field += "x";
    add(other, kText, "options");
  }
  EXPECT_EQ(keys.size(), expected);
}

TEST(Fingerprint, CharactersMovedFromOneFieldToTheNextChangeTheKey) {
  Compiler a = kCompiler;
  Compiler b = kCompiler;
  a.package_version = "1.0a";
  a.plugin_sha256 = "bcd";
  b.package_version = "1.0";
  b.plugin_sha256 = "abcd";
  EXPECT_NE(Fingerprint(a).program_key(kText, ""), Fingerprint(b).program_key(kText, ""));
  EXPECT_NE(Fingerprint(a).program_key("module", "x"), Fingerprint(a).program_key("x", "module"));
}

TEST(Fingerprint, TheModulesNameDoesNotCount) {
  const Fingerprint fingerprint(kCompiler);
  const Key key = fingerprint.program_key(kText, "");
  for (const std::string_view name : {"x", "\"two words\"", "jit_f.1"}) {
    const std::string text = "module @" + std::string(name) + std::string(kText.substr(15));
    EXPECT_EQ(fingerprint.program_key(text, ""), key) << text;
  }
  EXPECT_NE(fingerprint.program_key("module @x attributes {a = 1} {\n}", ""),
            fingerprint.program_key("module @x attributes {a = 2} {\n}", ""));
  for (const std::string_view odd : {"module @", "module @\"", "module @x", ""})
    EXPECT_NE(fingerprint.program_key(odd, ""), key);
}

TEST(Fingerprint, CallsAndProgramsNeverShareAKey) {
  const Fingerprint fingerprint(kCompiler);
  EXPECT_NE(fingerprint.call_key(kText, ""), fingerprint.program_key(kText, ""));
  EXPECT_NE(fingerprint.call_key("call", "build 1"), fingerprint.call_key("call", "build 2"));
}

TEST(Fingerprint, FlagsAreThoseOfTheEnvironment) {
  ::setenv("XLA_FLAGS", "--xla_one", 1);
  const std::string one = compiler_flags();
  ::setenv("XLA_FLAGS", "--xla_two", 1);
  EXPECT_NE(compiler_flags(), one);
  ::unsetenv("XLA_FLAGS");
}

TEST(CpuDescription, NamesModelAndSortedFeaturesOfTheFirstProcessor) {
  EXPECT_EQ(cpu_description("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\n"
                            "model name\t: X\ncpu MHz\t\t: 2000.1\nflags\t\t: sse avx  aes\n\n"
                            "processor\t: 1\nvendor_id\t: GenuineIntel\nmodel\t\t: 86\n"),
            "vendor_id=GenuineIntel\nmodel=85\nfeatures=aes avx sse \n");
  EXPECT_EQ(cpu_description("processor\t: 0\nFeatures\t: fp asimd\nCPU part\t: 0xd0c\n"),
            "CPU part=0xd0c\nfeatures=asimd fp \n");
}

TEST(CpuDescription, ThisMachineHasFeatures) { EXPECT_NE(cpu_description(), cpu_description("")); }

}  // namespace
}  // namespace torch_tpu::cache
