#include "cache/host_tier.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <thread>
#include <vector>

#include "cache/testing/cache_test.h"

namespace torch_tpu::cache {
namespace {

using std::chrono::milliseconds;
using namespace testing;  // NOLINT(google-build-using-namespace)

constexpr int64_t kDay = 24 * 3600 * kSecond;
constexpr int64_t kNow = 1'800'000'000 * kSecond;

HostTier::Options options_for(const TemporaryFolder& folder) {
  HostTier::Options options;
  options.folder = folder.cache();
  return options;
}

std::string payload_in(HostTier& tier, std::string_view name) {
  const auto bytes = tier.read(key_of(name));
  return bytes ? std::string(payload_of(*bytes)) : "miss";
}

bool write(HostTier& tier, std::string_view name, std::string_view payload) {
  return tier.write(key_of(name), entry_of(name, payload));
}

// In a process of an ordinary user: permissions don't stop root.
int run_as_ordinary_user(const TemporaryFolder& folder, const std::function<int()>& body) {
  constexpr uid_t kNobody = 65534;
  if (::geteuid() == 0) {
    EXPECT_EQ(::chmod(folder.path().c_str(), 0755), 0);
    for (const auto& entry : fs::recursive_directory_iterator(folder.path()))
      EXPECT_EQ(::chown(entry.path().c_str(), kNobody, kNobody), 0);
  }
  return run_in_child([&] {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) return 121;
    return body();
  });
}

TEST(HostTier, WhatOneProcessWritesAnotherReads) {
  const TemporaryFolder folder;
  ASSERT_EQ(run_in_child([&] {
              HostTier tier(options_for(folder));
              return write(tier, "p", "code") ? 0 : 1;
            }),
            0);
  HostTier tier(options_for(folder));
  EXPECT_EQ(payload_in(tier, "p"), "code");
  EXPECT_EQ(payload_in(tier, "q"), "miss");
  const HostStats stats = tier.stats();
  EXPECT_EQ(stats.reads, 2);
  EXPECT_EQ(stats.hits, 1);
  EXPECT_EQ(stats.misses, 1);
}

TEST(HostTier, FolderAndFilesAreTheUsersAlone) {
  const TemporaryFolder folder;
  const mode_t old_mask = ::umask(0);
  HostTier tier(options_for(folder));
  EXPECT_TRUE(write(tier, "p", "code"));
  ::umask(old_mask);
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    const auto others = fs::perms::group_write | fs::perms::others_write;
    EXPECT_EQ(entry.status().permissions() & others, fs::perms::none) << entry.path();
  }
}

TEST(HostTier, KilledAtAnyStepOfAWriteLeavesTheOldEntryOrTheNew) {
  for (const char* step : {"create", "write first half", "write second half", "rename", "done"}) {
    for (const bool had_old : {false, true}) {
      const TemporaryFolder folder;
      const Warnings warnings;
      HostTier tier(options_for(folder));
      if (had_old) {
        EXPECT_TRUE(write(tier, "p", "old"));
      }
      EXPECT_EQ(run_in_child([&] {
                  HostTier::Options options = options_for(folder);
                  options.on_step = [&](std::string_view name) {
                    if (name == step) ::kill(::getpid(), SIGKILL);
                  };
                  HostTier killed(options);
                  write(killed, "p", "new");
                  return 0;
                }),
                -SIGKILL)
          << step;
      const std::string found = payload_in(tier, "p");
      EXPECT_EQ(found, std::string_view(step) == "done" ? "new" : had_old ? "old" : "miss") << step;
      EXPECT_TRUE(write(tier, "p", "newest"));
      EXPECT_EQ(payload_in(tier, "p"), "newest");
      EXPECT_EQ(warnings.count(), 0U) << step;
    }
  }
}

TEST(HostTier, WhatAKilledWriterLeftIsRemovedLater) {
  const TemporaryFolder folder;
  HostTier::Options options = options_for(folder);
  ASSERT_EQ(run_in_child([&] {
              HostTier::Options killed_options = options;
              killed_options.on_step = [](std::string_view name) {
                if (name == "rename") ::kill(::getpid(), SIGKILL);
              };
              HostTier killed(killed_options);
              const auto lock = killed.lock(key_of("p"));
              write(killed, "p", "code");
              return 0;
            }),
            -SIGKILL);
  EXPECT_EQ(HostTier(options).usage().unfinished, 1);
  EXPECT_EQ(files_in(folder.cache() + "/v1/locks"), 1U);
  HostTier(options).prune(1 << 20);
  EXPECT_EQ(HostTier(options).usage().unfinished, 1) << "it may still be under way";
  options.now = [] { return std::chrono::system_clock::now().time_since_epoch().count() + kDay; };
  HostTier(options).prune(1 << 20);
  EXPECT_EQ(HostTier(options).usage().unfinished, 0);
  EXPECT_EQ(files_in(folder.cache() + "/v1/locks"), 0U);
}

TEST(HostTier, BadEntriesAreSetAsideWithOneWarningPerKind) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier tier(options_for(folder));
  const std::string good = entry_of("p", std::string(1000, 'x'));
  std::string flipped = good;
  flipped[500] ^= 1;
  const std::pair<std::string, std::string> cases[] = {
      {"truncated", good.substr(0, 700)},
      {"truncated", ""},
      {"damaged", flipped},
      {"damaged", flipped},
      {"foreign", "#!/bin/sh\nrm"},
      {"misplaced", entry_of("q", "code of q")},
  };
  for (const auto& [kind, bytes] : cases) {
    ASSERT_TRUE(tier.write(key_of("p"), good));
    overwrite(file_of(folder.cache(), "p"), bytes);
    EXPECT_EQ(payload_in(tier, "p"), "miss") << kind;
    EXPECT_FALSE(fs::exists(file_of(folder.cache(), "p"))) << kind;
    EXPECT_TRUE(tier.write(key_of("p"), good));
    EXPECT_EQ(payload_in(tier, "p"), std::string(1000, 'x'));
  }
  EXPECT_EQ(tier.stats().set_aside, 6);
  EXPECT_EQ(tier.usage().quarantined, 6);
  EXPECT_EQ(warnings.count(), 4U);
}

TEST(HostTier, LinksPipesFoldersAndFilesOthersCanWriteAreNotEntries) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier tier(options_for(folder));
  ASSERT_TRUE(write(tier, "p", "code"));
  const std::string file = file_of(folder.cache(), "p");
  const std::string aside = folder.path() + "/aside";
  fs::rename(file, aside);

  fs::create_symlink(aside, file);
  EXPECT_EQ(payload_in(tier, "p"), "miss");
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_EQ(payload_in(tier, "p"), "miss");
  fs::create_directory(file);
  EXPECT_EQ(payload_in(tier, "p"), "miss");
  fs::rename(aside, file);
  EXPECT_EQ(payload_in(tier, "p"), "code");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(payload_in(tier, "p"), "miss");
  EXPECT_EQ(tier.stats().set_aside, 4);
  EXPECT_EQ(warnings.count(), 1U);
}

TEST(HostTier, AFolderThatOthersCanWriteIsNotUsed) {
  for (const mode_t mode : {0770, 0707, 0777}) {
    const TemporaryFolder folder;
    const Warnings warnings;
    fs::create_directory(folder.cache());
    ASSERT_EQ(::chmod(folder.cache().c_str(), mode), 0);
    HostTier tier(options_for(folder));
    EXPECT_FALSE(write(tier, "p", "code"));
    EXPECT_EQ(payload_in(tier, "p"), "miss");
    EXPECT_FALSE(tier.usable());
    EXPECT_EQ(tier.lock(key_of("p")), nullptr);
    EXPECT_TRUE(fs::is_empty(folder.cache()));
    ASSERT_EQ(warnings.count(), 1U);
    EXPECT_NE(warnings.messages()[0].find("writable by nobody else"), std::string::npos);
  }
}

TEST(HostTier, AFolderOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make one";
  const TemporaryFolder folder;
  const Warnings warnings;
  fs::create_directory(folder.cache());
  ASSERT_EQ(::chown(folder.cache().c_str(), 65534, 65534), 0);
  HostTier tier(options_for(folder));
  EXPECT_FALSE(write(tier, "p", "code"));
  EXPECT_EQ(warnings.count(), 1U);
}

TEST(HostTier, AFolderThatCanOnlyBeReadIsReadWithOneWarning) {
  const TemporaryFolder folder;
  {
    HostTier tier(options_for(folder));
    ASSERT_TRUE(write(tier, "p", "code"));
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.is_directory()) fs::permissions(entry.path(), fs::perms(0500));
  }
  EXPECT_EQ(run_as_ordinary_user(folder,
                                 [&] {
                                   const Warnings warnings;
                                   HostTier tier(options_for(folder));
                                   if (payload_in(tier, "p") != "code") return 1;
                                   if (write(tier, "q", "code") || write(tier, "r", "code"))
                                     return 2;
                                   if (payload_in(tier, "q") != "miss") return 3;
                                   const auto lock = tier.lock(key_of("q"));
                                   if (lock->state() != KeyLock::State::kUnavailable) return 4;
                                   tier.prune(0);
                                   tier.set_aside(key_of("p"), "is refused");
                                   if (payload_in(tier, "p") != "code") return 5;
                                   if (tier.stats().write_failures != 2) return 6;
                                   return warnings.count() == 2 ? 0 : 7;
                                 }),
            0);
}

TEST(HostTier, APlaceWhereNoFolderCanBeMadeTurnsTheTierOffWithOneWarning) {
  const TemporaryFolder folder;
  const Warnings warnings;
  overwrite(folder.cache(), "a file is in the way");
  HostTier tier(options_for(folder));
  EXPECT_FALSE(write(tier, "p", "code"));
  EXPECT_EQ(payload_in(tier, "p"), "miss");
  EXPECT_EQ(warnings.count(), 1U);
}

TEST(HostTier, ARemovedFolderIsMadeAgain) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier tier(options_for(folder));
  EXPECT_TRUE(write(tier, "p", "code"));
  for (const char* part : {"", "/v1/entries", "/v1/temporary", "/v1/locks", "/v1"}) {
    fs::remove_all(folder.cache() + part);
    EXPECT_EQ(tier.lock(key_of("p"))->state(), KeyLock::State::kHeld) << part;
    EXPECT_TRUE(write(tier, "q", "code")) << part;
    EXPECT_EQ(payload_in(tier, "q"), "code") << part;
  }
  fs::remove_all(folder.cache());
  EXPECT_EQ(payload_in(tier, "q"), "miss");
  HostTier another(options_for(folder));
  EXPECT_TRUE(write(another, "q", "code of another process"));
  EXPECT_EQ(payload_in(tier, "q"), "code of another process");
  EXPECT_EQ(warnings.count(), 0U);
}

TEST(HostTier, AWriteCutShortIsNoEntry) {
  const TemporaryFolder folder;
  const int code = run_in_child([&] {
    const Warnings warnings;
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{50'000, 50'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    HostTier tier(options_for(folder));
    const std::string payload(200'000, 'x');
    if (write(tier, "p", payload) || write(tier, "p", payload)) return 1;
    if (payload_in(tier, "p") != "miss") return 2;
    if (!write(tier, "small", "code") || payload_in(tier, "small") != "code") return 3;
    if (tier.usage().unfinished != 0) return 4;
    return warnings.count() == 1 ? 0 : 5;
  });
  EXPECT_EQ(code, 0);
}

TEST(HostTier, AFullDiskIsAMissAndOneWarning) {
  const TemporaryFolder folder;
  fs::create_directory(folder.cache());
  const int code = run_in_child([&] {
    const Warnings warnings;
    // In a mount namespace of its own: seen by nobody, gone with the process.
    if (::unshare(CLONE_NEWNS) != 0 ||
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("none", folder.cache().c_str(), "tmpfs", 0, "size=256k,mode=700") != 0)
      return 77;
    HostTier tier(options_for(folder));
    const std::string payload(100'000, 'x');
    int written = 0;
    for (int i = 0; i < 10; ++i) written += write(tier, std::to_string(i), payload) ? 1 : 0;
    if (written == 0 || written > 2) return 1;
    int read = 0;
    for (int i = 0; i < 10; ++i) read += payload_in(tier, std::to_string(i)) == payload ? 1 : 0;
    if (read != written) return 2;
    if (tier.usage().unfinished != 0) return 3;
    return warnings.count() == 1 ? 0 : 4;
  });
  if (code == 77) GTEST_SKIP() << "mounting is not allowed here";
  EXPECT_EQ(code, 0);
}

TEST(HostTier, WhatWasNotUsedForLongestGoesFirst) {
  const TemporaryFolder folder;
  int64_t now = kNow;
  HostTier::Options options = options_for(folder);
  options.now = [&] { return now; };
  HostTier tier(options);
  const std::string payload(10'000, 'x');
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_TRUE(write(tier, name, payload));
    now += 3600 * kSecond;
  }
  EXPECT_EQ(payload_in(tier, "a"), payload);
  const int64_t size = tier.usage().bytes / 4;
  EXPECT_EQ(tier.prune(4 * size), 0);
  EXPECT_EQ(tier.prune(3 * size), 2) << "to nine tenths";
  EXPECT_EQ(payload_in(tier, "a"), payload);
  EXPECT_EQ(payload_in(tier, "b"), "miss");
  EXPECT_EQ(payload_in(tier, "c"), "miss");
  EXPECT_EQ(payload_in(tier, "d"), payload);
  EXPECT_EQ(tier.stats().evictions, 2);
  EXPECT_EQ(tier.stats().evicted_bytes, 2 * size);
}

TEST(HostTier, TheSizeStaysBoundedWithoutAnybodyAsking) {
  const TemporaryFolder folder;
  HostTier::Options options = options_for(folder);
  options.max_bytes = 200'000;
  HostTier tier(options);
  for (int i = 0; i < 200; ++i)
    EXPECT_TRUE(write(tier, std::to_string(i), std::string(5'000, 'x')));
  EXPECT_LE(tier.usage().bytes, options.max_bytes + options.max_bytes / 10);
  EXPECT_GT(tier.usage().entries, 20);
  EXPECT_GT(tier.stats().evictions, 100);
  EXPECT_FALSE(write(tier, "too large", std::string(300'000, 'x')));
}

TEST(HostTier, ShortLivedProcessesKeepTheBoundTogether) {
  const TemporaryFolder folder;
  int64_t now = kNow;
  HostTier::Options options = options_for(folder);
  options.max_bytes = 1'000'000;
  options.now = [&] { return now; };
  for (int i = 0; i < 100; ++i) {
    HostTier tier(options);
    EXPECT_TRUE(write(tier, std::to_string(i), std::string(50'000, 'x')));
    now += 1000 * kSecond;
  }
  EXPECT_LE(HostTier(options).usage().bytes, options.max_bytes + 100'000);
}

TEST(HostTier, JumpsOfTheClockNeitherKeepNorDropTheWrongEntries) {
  const TemporaryFolder folder;
  int64_t now = kNow;
  HostTier::Options options = options_for(folder);
  options.now = [&] { return now; };
  HostTier tier(options);
  now = kNow + 1000 * kDay;  // for a while the clock is years ahead
  EXPECT_TRUE(write(tier, "a", "code"));
  now = kNow;
  EXPECT_TRUE(write(tier, "b", "code"));
  const int64_t size = tier.usage().bytes / 2;
  EXPECT_EQ(tier.prune(2 * size), 0);  // from here on "a" ages like the others
  now += kDay;
  EXPECT_EQ(payload_in(tier, "b"), "code");
  EXPECT_EQ(tier.prune(size + size / 2), 1);
  EXPECT_EQ(payload_in(tier, "a"), "miss");
  EXPECT_EQ(payload_in(tier, "b"), "code");

  now = 1;  // 1970
  EXPECT_EQ(payload_in(tier, "b"), "code");
  EXPECT_TRUE(write(tier, "c", "code"));
  now = kNow + 50'000 * kDay;
  EXPECT_EQ(payload_in(tier, "c"), "code");
  EXPECT_EQ(tier.prune(10 * size), 0);
  EXPECT_EQ(payload_in(tier, "b"), "code");
}

TEST(HostTier, TheQuarantineIsBounded) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier tier(options_for(folder));
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE(write(tier, "p", "code"));
    overwrite(file_of(folder.cache(), "p"), "garbage");
    EXPECT_EQ(payload_in(tier, "p"), "miss");
  }
  EXPECT_EQ(tier.usage().quarantined, 16);
}

TEST(HostTier, OtherVersionsOfTheFormShareTheFolderUntouched) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier tier(options_for(folder));
  ASSERT_TRUE(write(tier, "p", "code"));
  const std::string other = folder.cache() + "/v2/entries/ab";
  fs::create_directories(other);
  overwrite(other + "/abcd", "a later form");
  EXPECT_EQ(payload_in(tier, "p"), "code");
  tier.prune(0);
  tier.clear();
  EXPECT_EQ(text_of_file(other + "/abcd"), "a later form");
  EXPECT_EQ(warnings.count(), 0U);
}

TEST(HostTier, ListVerifyAndClear) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier tier(options_for(folder));
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(write(tier, name, "code"));
  std::string bytes = text_of_file(file_of(folder.cache(), "b"));
  bytes.back() ^= 1;
  overwrite(file_of(folder.cache(), "b"), bytes);

  const std::vector<HostEntry> listed = tier.list();
  ASSERT_EQ(listed.size(), 3U);
  for (const HostEntry& entry : listed) {
    EXPECT_EQ(entry.key, key_of(entry.name));
    EXPECT_EQ(entry.origin, "a test");
    EXPECT_EQ(entry.state, EntryState::kGood) << "only headers were read";
    EXPECT_EQ(entry.bytes, static_cast<int64_t>(entry_of(entry.name, "code").size()));
  }
  for (const HostEntry& entry : tier.list(/*check=*/true))
    EXPECT_EQ(entry.state, entry.name == "b" ? EntryState::kDamaged : EntryState::kGood);
  EXPECT_EQ(tier.list(/*check=*/true).size(), 2U);
  EXPECT_EQ(tier.usage().quarantined, 1);
  EXPECT_EQ(tier.clear(), 2);
  EXPECT_EQ(tier.usage().entries, 0);
  EXPECT_EQ(tier.usage().quarantined, 0);
}

TEST(HostTier, LookingDoesNotCreateTheFolderNorCountAsUse) {
  const TemporaryFolder folder;
  const Warnings warnings;
  HostTier::Options options = options_for(folder);
  options.create = false;
  EXPECT_TRUE(HostTier(options).list().empty());
  EXPECT_FALSE(fs::exists(folder.cache()));
  EXPECT_EQ(warnings.count(), 0U);

  HostTier::Options old = options_for(folder);
  old.now = [] { return kNow - kDay; };
  HostTier writer(old);
  ASSERT_TRUE(write(writer, "p", "code"));
  HostTier reader(options);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(reader.list(/*check=*/true).at(0).used_ns, kNow - kDay);
}

TEST(HostTier, ManyProcessesAndThreadsReadWriteAndPruneAtOnce) {
  const TemporaryFolder folder;
  HostTier::Options options = options_for(folder);
  options.max_bytes = 300'000;
  const auto payload = [](int i) {
    return std::string(2'000 + i, static_cast<char>('a' + i % 26));
  };
  const auto work = [&] {
    const Warnings warnings;
    HostTier tier(options);
    std::atomic<int> wrong{0};
    const auto loop = [&](int start) {
      for (int n = 0; n < 400; ++n) {
        const int i = (start + 7 * n) % 200;
        const std::string found = payload_in(tier, std::to_string(i));
        if (found == "miss")
          write(tier, std::to_string(i), payload(i));
        else if (found != payload(i))
          ++wrong;
      }
    };
    std::thread other(loop, ::getpid() % 200);
    loop(0);
    other.join();
    return wrong == 0 && warnings.count() == 0 && tier.stats().write_failures == 0 ? 0 : 1;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) children.push_back(start_child(work));
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_LE(HostTier(options).usage().bytes, 2 * options.max_bytes);
}

}  // namespace
}  // namespace torch_tpu::cache
