#include "pjrt/elf_check.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/concat.h"
#include "pjrt/plugin.h"
#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::pjrt {
namespace {

using testing::contains;
using testing::error_of;

// Files that look like plugins, in a folder that goes with the test.
class ElfCheckTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "torch_tpu_elf_check_" + std::to_string(::getpid());
    std::filesystem::create_directory(folder_);
    library_ = read("/proc/self/exe");
    ASSERT_GT(library_.size(), 10000u);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::string read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string write(const std::string& contents) {
    const std::string path = folder_ + "/plugin.so";
    std::ofstream(path, std::ios::binary) << contents;
    return path;
  }
  const std::string& folder() const { return folder_; }
  // A position-independent executable has the form of a shared library.
  const std::string& library() const { return library_; }

  void expect_refused(const std::string& path, std::string_view reason) {
    for (auto action : {std::function<void()>([&] { check_shared_object(path); }),
                        std::function<void()>([&] { Plugin::load(path); })}) {
      const Error error = error_of(action);
      EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
      EXPECT_TRUE(contains(error, reason)) << error.what();
      EXPECT_TRUE(contains(error, path)) << error.what();
    }
  }

 private:
  std::string folder_;
  std::string library_;
};

TEST_F(ElfCheckTest, AMissingFileIsRefused) {
  expect_refused(folder() + "/none.so", "No such file");
}

TEST_F(ElfCheckTest, AnEmptyPathIsRefused) {
  EXPECT_EQ(error_of([] { Plugin::load(""); }).kind(), ErrorKind::kUnavailable);
}

TEST_F(ElfCheckTest, ADirectoryIsRefused) { expect_refused(folder(), "but a directory"); }

TEST_F(ElfCheckTest, AFifoIsRefusedWithoutBlocking) {
  const std::string path = folder() + "/fifo.so";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_refused(path, "not a regular file");
}

TEST_F(ElfCheckTest, AnUnreadableFileIsRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  const std::string path = write(library());
  ::chmod(path.c_str(), 0);
  expect_refused(path, "Permission denied");
}

TEST_F(ElfCheckTest, ATextFileIsRefused) {
  expect_refused(write("# this is no library\n"), "no ELF header");
}

TEST_F(ElfCheckTest, AnEmptyFileIsRefused) { expect_refused(write(""), "not a shared library"); }

TEST_F(ElfCheckTest, ALibraryOfAnotherMachineIsRefused) {
  std::string contents = library();
  const Elf64_Half machine = EM_S390;
  std::memcpy(contents.data() + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof machine);
  expect_refused(write(contents), "another machine");
}

TEST_F(ElfCheckTest, A32BitLibraryIsRefused) {
  std::string contents = library();
  contents[EI_CLASS] = ELFCLASS32;
  expect_refused(write(contents), "64-bit");
}

TEST_F(ElfCheckTest, AnObjectFileIsRefused) {
  std::string contents = library();
  const Elf64_Half type = ET_REL;
  std::memcpy(contents.data() + offsetof(Elf64_Ehdr, e_type), &type, sizeof type);
  expect_refused(write(contents), "no shared library");
}

TEST_F(ElfCheckTest, AHeaderWithHugeOffsetsIsRefused) {
  std::string contents = library();
  const Elf64_Off offset = ~Elf64_Off{0} - 100;
  std::memcpy(contents.data() + offsetof(Elf64_Ehdr, e_phoff), &offset, sizeof offset);
  expect_refused(write(contents), "truncated");
}

TEST_F(ElfCheckTest, ALibraryTruncatedAnywhereIsRefused) {
  const size_t size = library().size();
  for (size_t length : {size_t{5}, size_t{40}, size_t{63}, size_t{64}, size_t{100}, size_t{1000},
                        size_t{4096}, size / 4, size / 2, size * 9 / 10, size - 1}) {
    SCOPED_TRACE(length);
    expect_refused(write(library().substr(0, length)), "truncated");
  }
}

TEST_F(ElfCheckTest, ACompleteLibraryPasses) {
  EXPECT_NO_THROW(check_shared_object(write(library())));
}

TEST_F(ElfCheckTest, APluginTruncatedAnywhereIsRefused) {
  const std::string plugin = testing::path_from("TORCH_TPU_TEST_PLUGIN_XLA");
  if (plugin.empty()) GTEST_SKIP() << "TORCH_TPU_TEST_PLUGIN_XLA is not set";
  const std::string path = folder() + "/cut.so";
  std::filesystem::copy_file(plugin, path);
  const auto size = std::filesystem::file_size(path);
  for (auto length : {size - 1, size * 3 / 4, size / 2, size / 100, std::uintmax_t{200}}) {
    std::filesystem::resize_file(path, length);
    SCOPED_TRACE(length);
    expect_refused(path, "truncated");
  }
}

TEST_F(ElfCheckTest, AForeignLibraryIsNamedAsSuch) {
  for (const char* path : {"/lib/x86_64-linux-gnu/libz.so.1", "/usr/lib/x86_64-linux-gnu/libz.so.1",
                           "/lib64/libz.so.1", "/lib/aarch64-linux-gnu/libz.so.1",
                           "/lib/x86_64-linux-gnu/libm.so.6", "/lib/aarch64-linux-gnu/libm.so.6"}) {
    if (!std::filesystem::exists(path)) continue;
    const Error error = error_of([&] { Plugin::load(path); });
    EXPECT_EQ(error.kind(), ErrorKind::kUnavailable);
    EXPECT_TRUE(contains(error, "no PJRT plugin: it has no GetPjrtApi")) << error.what();
    return;
  }
  GTEST_SKIP() << "no foreign library found";
}

}  // namespace
}  // namespace torch_tpu::pjrt
