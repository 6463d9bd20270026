#include "cache/cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "base/error.h"
#include "cache/testing/cache_test.h"

namespace torch_tpu::cache {
namespace {

using std::chrono::milliseconds;
using namespace testing;  // NOLINT(google-build-using-namespace)

std::unique_ptr<HostTier> host_in(const TemporaryFolder& folder) {
  HostTier::Options options;
  options.folder = folder.cache();
  return std::make_unique<HostTier>(options);
}

// A compiler whose programs are their names; counts what it is asked to do.
struct FakeCompiler {
  std::atomic<int> compiled{0};
  std::atomic<int> loaded{0};
  milliseconds takes{0};
  bool refuses = false;
  bool cannot_serialize = false;
  // A letter is added for each compilation in any process.
  std::string log;

  std::pair<std::string, Source> get(Cache& cache, const std::string& name) {
    return cache.load_or_compile<std::string>(
        key_of(name), name,
        [&](std::string_view payload) {
          if (refuses) fail(ErrorKind::kInternal, "Failed to parse message");
          ++loaded;
          return std::string(payload);
        },
        [&] {
          std::this_thread::sleep_for(takes);
          ++compiled;
          if (!log.empty()) {
            const File file(::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
            write_all(file.descriptor(), "x");
          }
          return "code of " + name;
        },
        [&](const std::string& code) {
          if (cannot_serialize) fail(ErrorKind::kNotImplemented, "no slot");
          return code;
        });
  }
};

FleetStore store_of(std::shared_ptr<std::map<std::string, std::string>> files) {
  return {[files](const std::string& name) -> std::optional<std::string> {
            const auto found = files->find(name);
            return found == files->end() ? std::nullopt : std::optional(found->second);
          },
          [files](const std::string& name, const std::string& bytes) { (*files)[name] = bytes; }};
}

TEST(Cache, ASecondStartCompilesNothing) {
  const TemporaryFolder folder;
  FakeCompiler compiler;
  for (const Source expected : {Source::kCompiled, Source::kHost}) {
    Cache cache(host_in(folder));
    EXPECT_EQ(compiler.get(cache, "p"), std::pair(std::string("code of p"), expected));
  }
  EXPECT_EQ(compiler.compiled, 1);
  EXPECT_EQ(compiler.loaded, 1);
}

TEST(Cache, WithoutTiersEveryRequestCompiles) {
  FakeCompiler compiler;
  Cache cache(nullptr);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
  EXPECT_EQ(cache.stats().compilations, 2);
}

TEST(Cache, ThreadsThatAskAtTheSameTimeShareOneCompilation) {
  for (const bool with_host : {true, false}) {
    const TemporaryFolder folder;
    FakeCompiler compiler;
    compiler.takes = milliseconds(100);
    Cache cache(with_host ? host_in(folder) : nullptr);
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] { right += compiler.get(cache, "p").first == "code of p" ? 1 : 0; });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(right, 8);
    EXPECT_EQ(compiler.compiled, 1);
    EXPECT_EQ(cache.stats().thread_hits, 7);
  }
}

TEST(Cache, ThreadsThatCannotShareCompileEachForThemselves) {
  const TemporaryFolder folder;
  const Warnings warnings;
  FakeCompiler compiler;
  compiler.takes = milliseconds(10);
  compiler.cannot_serialize = true;
  Cache cache(host_in(folder));
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiler.compiled, 4);
  EXPECT_EQ(warnings.count(), 1U);
}

TEST(Cache, EightProcessesOnAnEmptyCacheCompileEachProgramOnce) {
  const TemporaryFolder folder;
  const std::string log = folder.path() + "/log";
  constexpr int kPrograms = 20;
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child) {
    children.push_back(start_child([&] {
      const Warnings warnings;
      FakeCompiler compiler;
      compiler.takes = milliseconds(5);
      compiler.log = log;
      Cache cache(host_in(folder));
      for (int i = 0; i < kPrograms; ++i) {
        const std::string name = std::to_string(i);
        if (compiler.get(cache, name).first != "code of " + name) return 1;
      }
      return warnings.count() == 0 ? 0 : 2;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(text_of_file(log).size(), static_cast<size_t>(kPrograms));
  EXPECT_EQ(files_in(folder.cache() + "/v1/locks"), 0U);
  EXPECT_EQ(files_in(folder.cache() + "/v1/temporary"), 0U);
}

TEST(Cache, AProcessKilledWhileCompilingHoldsUpNobody) {
  const TemporaryFolder folder;
  const Warnings warnings;
  const std::string log = folder.path() + "/log";
  const pid_t child = start_child([&] {
    Cache cache(host_in(folder));
    const Work work{[](std::string_view) {},
                    [&] {
                      overwrite(log, "compiling");
                      ::pause();
                    },
                    [] { return std::string(); }};
    cache.load_or_compile(key_of("p"), "p", work);
    return 0;
  });
  while (!fs::exists(log)) std::this_thread::sleep_for(milliseconds(1));
  std::thread killer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    ::kill(child, SIGKILL);
  });
  FakeCompiler compiler;
  Cache cache(host_in(folder));
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
  killer.join();
  wait_for(child);
  EXPECT_EQ(cache.host()->stats().lock_waits, 1);
  EXPECT_EQ(cache.host()->stats().lock_timeouts, 0);
  EXPECT_EQ(warnings.count(), 0U);
}

TEST(Cache, AProcessThatNeverFinishesIsWaitedForUntilTheLimit) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier holder({.folder = folder.cache()});
  const auto lock = holder.lock(key_of("p"));
  HostTier::Options options{.folder = folder.cache(), .lock_limit = milliseconds(30)};
  FakeCompiler compiler;
  Cache cache(std::make_unique<HostTier>(options));
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kHost);
  EXPECT_EQ(cache.host()->stats().lock_timeouts, 1);
  EXPECT_EQ(warnings.count(), 1U);
}

TEST(Cache, AnEntryThatCannotBeLoadedIsSetAsideAndCompiledAnew) {
  const TemporaryFolder folder;
  const Warnings warnings;
  FakeCompiler compiler;
  Cache cache(host_in(folder));
  compiler.get(cache, "p");
  compiler.refuses = true;
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
  EXPECT_EQ(cache.stats().refused, 1);
  EXPECT_EQ(cache.host()->usage().quarantined, 1);
  compiler.refuses = false;
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kHost);
  EXPECT_EQ(warnings.count(), 1U);
}

TEST(Cache, LackOfDeviceMemoryIsPassedOnAndKeepsTheEntry) {
  const TemporaryFolder folder;
  FakeCompiler compiler;
  Cache cache(host_in(folder));
  compiler.get(cache, "p");
  const Work work{[](std::string_view) { fail(ErrorKind::kOutOfMemory, "no room"); }, [] {},
                  [] { return std::string(); }};
  EXPECT_THROW(cache.load_or_compile(key_of("p"), "p", work), Error);
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kHost);
}

TEST(Cache, AFailingCompilationIsPassedOnAndTriedAgain) {
  const TemporaryFolder folder;
  Cache cache(host_in(folder));
  const Work work{[](std::string_view) {}, [] { fail(ErrorKind::kInvalidArgument, "bad program"); },
                  [] { return std::string(); }};
  for (int i = 0; i < 2; ++i) EXPECT_THROW(cache.load_or_compile(key_of("p"), "p", work), Error);
  FakeCompiler compiler;
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
  EXPECT_EQ(files_in(folder.cache() + "/v1/locks"), 0U);
}

TEST(Cache, FaultsInTheFolderCostACompilationAndNeverAWrongProgram) {
  const TemporaryFolder folder;
  const Warnings warnings;
  FakeCompiler compiler;
  const std::string good = entry_of("p", "code of p");
  std::string flipped = good;
  flipped[flipped.size() / 2] ^= 4;
  for (const std::string& bytes :
       {std::string(), good.substr(0, 50), flipped, entry_of("q", "x"), std::string("#!/bin/sh")}) {
    Cache cache(host_in(folder));
    compiler.get(cache, "p");
    overwrite(file_of(folder.cache(), "p"), bytes);
    EXPECT_EQ(compiler.get(cache, "p"), std::pair(std::string("code of p"), Source::kCompiled));
    EXPECT_EQ(compiler.get(cache, "p"), std::pair(std::string("code of p"), Source::kHost));
  }
  EXPECT_EQ(warnings.count(), 4U) << "truncated, damaged, misplaced, foreign";
}

TEST(Cache, TheFleetFillsTheHostAndIsFilledByCompilations) {
  const auto files = std::make_shared<std::map<std::string, std::string>>();
  FakeCompiler compiler;
  {
    const TemporaryFolder folder;
    Cache cache(host_in(folder));
    cache.set_fleet(std::make_shared<FleetTier>(store_of(files), FleetTier::Options{}));
    EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
    EXPECT_TRUE(cache.fleet()->flush(milliseconds(10'000)));
  }
  const TemporaryFolder another_machine;
  Cache cache(host_in(another_machine));
  cache.set_fleet(std::make_shared<FleetTier>(store_of(files), FleetTier::Options{}));
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kFleet);
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kHost);
  EXPECT_EQ(compiler.compiled, 1);
}

TEST(Cache, AFleetEntryThePluginRefusesIsReplaced) {
  const TemporaryFolder folder;
  const Warnings warnings;
  const auto files = std::make_shared<std::map<std::string, std::string>>();
  FakeCompiler compiler;
  compiler.refuses = true;
  Cache cache(nullptr);
  cache.set_fleet(std::make_shared<FleetTier>(store_of(files), FleetTier::Options{}));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
    EXPECT_TRUE(cache.fleet()->flush(milliseconds(10'000)));
  }
  EXPECT_EQ(cache.fleet()->stats().damaged, 1);
  EXPECT_EQ(cache.fleet()->stats().writes, 2);
}

TEST(Cache, ForbiddenCompilationsAreErrorsThatNameTheProgram) {
  const TemporaryFolder folder;
  FakeCompiler compiler;
  Cache cache(host_in(folder));
  compiler.get(cache, "p");
  cache.forbid_compiling();
  EXPECT_EQ(compiler.get(cache, "p").second, Source::kHost);
  try {
    compiler.get(cache, "aten::new_one");
    ADD_FAILURE() << "compiled";
  } catch (const CompilingForbidden& error) {
    EXPECT_NE(error.message().find("aten::new_one is in no tier"), std::string::npos);
  }
  cache.allow_compiling();
  EXPECT_EQ(compiler.get(cache, "aten::new_one").second, Source::kCompiled);
  EXPECT_EQ(cache.stats().forbidden, 1);
}

TEST(Cache, SwitchedOffItNeitherReadsNorWrites) {
  const TemporaryFolder folder;
  FakeCompiler compiler;
  Cache cache(host_in(folder));
  cache.set_enabled(false);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(compiler.get(cache, "p").second, Source::kCompiled);
  EXPECT_FALSE(fs::exists(folder.cache()));
}

TEST(Cache, SmallThingsAreFoundAgain) {
  const TemporaryFolder folder;
  const auto files = std::make_shared<std::map<std::string, std::string>>();
  Cache cache(host_in(folder));
  cache.set_origin("torch_tpu 1.0");
  cache.set_fleet(std::make_shared<FleetTier>(store_of(files), FleetTier::Options{}));
  EXPECT_EQ(cache.find(key_of("call")), std::nullopt);
  cache.store(key_of("call"), EntryKind::kCall, "aten::add", "program");
  EXPECT_EQ(cache.find(key_of("call")), "program");
  EXPECT_EQ(cache.host()->list().at(0).kind, EntryKind::kCall);
  EXPECT_EQ(cache.host()->list().at(0).origin, "torch_tpu 1.0");
  EXPECT_TRUE(cache.fleet()->flush(milliseconds(10'000)));
  cache.host()->clear();
  EXPECT_EQ(cache.find(key_of("call")), "program") << "from the fleet";
  EXPECT_EQ(cache.host()->usage().entries, 1);
}

TEST(Cache, ManyThreadsAndProcessesAskForManyPrograms) {
  const TemporaryFolder folder;
  const std::string log = folder.path() + "/log";
  std::vector<pid_t> children;
  for (int child = 0; child < 3; ++child) {
    children.push_back(start_child([&] {
      FakeCompiler compiler;
      compiler.takes = milliseconds(1);
      compiler.log = log;
      Cache cache(host_in(folder));
      std::atomic<int> wrong{0};
      std::vector<std::thread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          for (int i = 0; i < 60; ++i) {
            const std::string name = std::to_string((7 * i + 13 * t) % 60);
            if (compiler.get(cache, name).first != "code of " + name) ++wrong;
          }
        });
      }
      for (std::thread& thread : threads) thread.join();
      return wrong == 0 ? 0 : 1;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(text_of_file(log).size(), 60U);
}

}  // namespace
}  // namespace torch_tpu::cache
