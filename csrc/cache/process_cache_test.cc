#include "cache/process_cache.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/env.h"
#include "base/error.h"
#include "cache/file_hash.h"
#include "cache/testing/cache_test.h"

namespace torch_tpu::cache {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)

// Each in a process of its own, since they change the environment.
int with_environment(std::initializer_list<std::pair<const char*, std::string>> variables,
                     const std::function<int()>& body) {
  return run_in_child([&] {
    for (const char* name : {"TORCH_TPU_CACHE_DIR", "TORCH_TPU_CACHE_SIZE", "XDG_CACHE_HOME",
                             "TORCH_TPU_TIER2_COMPILATION_CACHE"})
      ::unsetenv(name);
    for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
    return body();
  });
}

TEST(ProcessCache, IsInTheUsersCacheFolderByDefault) {
  EXPECT_EQ(with_environment({{"HOME", "/home/u"}},
                             [] {
                               const auto options = host_tier_options();
                               if (options->folder != "/home/u/.cache/torch_tpu/default") return 1;
                               return options->max_bytes == int64_t{4} << 30 ? 0 : 2;
                             }),
            0);
  EXPECT_EQ(
      with_environment(
          {{"HOME", "/home/u"}, {"XDG_CACHE_HOME", "/scratch/u"}},
          [] { return host_tier_options()->folder == "/scratch/u/torch_tpu/default" ? 0 : 1; }),
      0);
}

TEST(ProcessCache, CanBeMovedNamedAndBounded) {
  EXPECT_EQ(with_environment({{"TORCH_TPU_CACHE_DIR", "~/c"},
                              {"HOME", "/home/u"},
                              {"TORCH_TPU_CACHE_SIZE", "512M"},
                              {"TORCH_TPU_TIER2_COMPILATION_CACHE", "job-1"}},
                             [] {
                               const auto options = host_tier_options();
                               if (options->folder != "/home/u/c/job-1") return 1;
                               return options->max_bytes == 512 << 20 ? 0 : 2;
                             }),
            0);
}

TEST(ProcessCache, CanBeTurnedOff) {
  EXPECT_EQ(with_environment({{"TORCH_TPU_TIER2_COMPILATION_CACHE", "disabled"}},
                             [] { return process_cache().host() == nullptr ? 0 : 1; }),
            0);
  EXPECT_EQ(with_environment({{"TORCH_TPU_CACHE_SIZE", "0"}},
                             [] { return process_cache().host() == nullptr ? 0 : 1; }),
            0);
}

TEST(ProcessCache, ANameThatLeadsElsewhereIsRefused) {
  for (const char* name : {"../x", "/etc", ".hidden", "a/b"}) {
    EXPECT_EQ(with_environment({{"TORCH_TPU_TIER2_COMPILATION_CACHE", name}},
                               [] {
                                 try {
                                   host_tier_options();
                                 } catch (const Error& error) {
                                   return error.kind() == ErrorKind::kValue ? 0 : 1;
                                 }
                                 return 2;
                               }),
              0)
        << name;
  }
}

TEST(ProcessCache, IsOneForTheProcess) {
  const TemporaryFolder folder;
  EXPECT_EQ(with_environment({{"TORCH_TPU_CACHE_DIR", folder.cache()}},
                             [&] {
                               Cache& cache = process_cache();
                               if (fs::exists(folder.cache())) return 1;
                               cache.store(key_of("x"), EntryKind::kCall, "x", "y");
                               if (process_cache().find(key_of("x")) != "y") return 2;
                               return fs::exists(folder.cache() + "/default/v1") ? 0 : 3;
                             }),
            0);
}

TEST(FileHash, IsRememberedUntilTheFileChanges) {
  const TemporaryFolder folder;
  HostTier host({.folder = folder.cache()});
  const std::string file = folder.path() + "/plugin.so";
  overwrite(file, "one");
  EXPECT_EQ(file_sha256(file, nullptr), sha256_hex("one"));
  EXPECT_EQ(file_sha256(file, &host), sha256_hex("one"));
  EXPECT_EQ(host.stats().writes, 1);
  EXPECT_EQ(file_sha256(file, &host), sha256_hex("one"));
  EXPECT_EQ(host.stats().hits, 1);
  const fs::file_time_type time = fs::last_write_time(file);
  overwrite(file, "two");
  fs::last_write_time(file, time);
  EXPECT_EQ(file_sha256(file, &host), sha256_hex("two")) << "same name, size and time";
  fs::create_symlink(file, folder.path() + "/link.so");
  EXPECT_EQ(file_sha256(folder.path() + "/link.so", &host), sha256_hex("two"));
  EXPECT_EQ(host.stats().hits, 2);
  EXPECT_THROW(file_sha256(folder.path() + "/missing.so", &host), Error);
}

TEST(FileHash, FindsTheFileOfCode) {
  EXPECT_TRUE(fs::exists(file_of_code(reinterpret_cast<const void*>(&::getenv))));
  EXPECT_EQ(file_of_code(nullptr), "");
}

}  // namespace
}  // namespace torch_tpu::cache
