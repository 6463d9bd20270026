#include "cache/fleet_tier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cache/testing/cache_test.h"

namespace torch_tpu::cache {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::entry_of;
using testing::key_of;
using testing::Warnings;

// A store in memory whose faults can be switched on; calls outlive the tier.
struct MemoryStore {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, std::string> files;
  bool fails = false;
  bool hangs = false;
  std::atomic<int> reads{0};

  void maybe_fail(std::unique_lock<std::mutex>& lock) {
    if (hangs) changed.wait(lock, [&] { return !hangs; });
    if (fails) throw std::runtime_error("503 slow down");
  }
  void let_go() {
    std::lock_guard lock(mutex);
    hangs = false;
    changed.notify_all();
  }
};

FleetStore store_of(const std::shared_ptr<MemoryStore>& memory) {
  return {[memory](const std::string& name) -> std::optional<std::string> {
            std::unique_lock lock(memory->mutex);
            ++memory->reads;
            memory->maybe_fail(lock);
            const auto found = memory->files.find(name);
            if (found == memory->files.end()) return std::nullopt;
            return found->second;
          },
          [memory](const std::string& name, const std::string& bytes) {
            std::unique_lock lock(memory->mutex);
            memory->maybe_fail(lock);
            memory->files[name] = bytes;
          }};
}

std::shared_ptr<const std::string> shared_entry(std::string_view name) {
  return std::make_shared<const std::string>(entry_of(name, "code"));
}

std::string name_of(std::string_view name) {
  const std::string hex = key_of(name).hex();
  return "v1/" + hex.substr(0, 2) + "/" + hex;
}

TEST(FleetTier, WhatOneMachineWritesAnotherReads) {
  const auto memory = std::make_shared<MemoryStore>();
  FleetTier one(store_of(memory), {});
  one.write(key_of("p"), shared_entry("p"));
  EXPECT_TRUE(one.flush(milliseconds(10'000)));
  EXPECT_EQ(one.stats().writes, 1);
  FleetTier another(store_of(memory), {});
  EXPECT_EQ(another.read(key_of("p")), entry_of("p", "code"));
  EXPECT_EQ(another.read(key_of("q")), std::nullopt);
  EXPECT_EQ(another.stats().hits, 1);
  EXPECT_EQ(another.stats().misses, 1);
}

TEST(FleetTier, ASlowStoreIsAMissAndThenSwitchedOff) {
  const Warnings warnings;
  const auto memory = std::make_shared<MemoryStore>();
  memory->files[name_of("p")] = entry_of("p", "code");
  memory->hangs = true;
  {
    FleetTier tier(store_of(memory), {.read_limit = milliseconds(30)});
    const auto start = steady_clock::now();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(tier.read(key_of("p")), std::nullopt);
    EXPECT_LT(steady_clock::now() - start, milliseconds(5'000));
    EXPECT_EQ(tier.stats().timeouts, 3);
    EXPECT_FALSE(tier.stats().on);
    EXPECT_EQ(memory->reads, 3);
    EXPECT_EQ(warnings.count(), 2U) << "one for the failures, one for switching off";
  }
  memory->let_go();
}

TEST(FleetTier, AFailingStoreIsAMissAndThenSwitchedOff) {
  const Warnings warnings;
  const auto memory = std::make_shared<MemoryStore>();
  memory->fails = true;
  FleetTier tier(store_of(memory), {});
  for (int i = 0; i < 10; ++i) EXPECT_EQ(tier.read(key_of("p")), std::nullopt);
  tier.write(key_of("p"), shared_entry("p"));
  EXPECT_EQ(memory->reads, 3);
  EXPECT_EQ(tier.stats().failures, 3);
  EXPECT_EQ(tier.stats().dropped, 1);
  ASSERT_EQ(warnings.count(), 2U);
  EXPECT_NE(warnings.messages()[0].find("503 slow down"), std::string::npos);
}

TEST(FleetTier, AStoreThatRecoversStaysOn) {
  const Warnings warnings;
  const auto memory = std::make_shared<MemoryStore>();
  memory->files[name_of("p")] = entry_of("p", "code");
  FleetTier tier(store_of(memory), {});
  for (int i = 0; i < 5; ++i) {
    for (const bool fails : {true, true, false}) {
      memory->fails = fails;
      EXPECT_EQ(tier.read(key_of("p")).has_value(), !fails);
    }
  }
  EXPECT_TRUE(tier.stats().on);
  EXPECT_EQ(warnings.count(), 1U);
}

TEST(FleetTier, GarbageIsAMissWhateverItIs) {
  const Warnings warnings;
  const auto memory = std::make_shared<MemoryStore>();
  FleetTier tier(store_of(memory), {.failures_in_a_row = 100});
  const std::string good = entry_of("p", "code");
  std::string flipped = good;
  flipped.back() ^= 1;
  const std::string garbage[] = {
      "",      "<html>502</html>", good.substr(0, 100),
      flipped, good + "x",         entry_of("q", "code of another program")};
  for (const std::string& bytes : garbage) {
    memory->files[name_of("p")] = bytes;
    EXPECT_EQ(tier.read(key_of("p")), std::nullopt);
  }
  EXPECT_EQ(tier.stats().damaged, 6);
  EXPECT_EQ(warnings.count(), 1U);
  tier.write(key_of("p"), shared_entry("p"));
  EXPECT_TRUE(tier.flush(milliseconds(10'000)));
  EXPECT_EQ(tier.read(key_of("p")), good) << "a new entry takes its place";
}

TEST(FleetTier, WritesNeverWaitAndWaitingOnesAreBounded) {
  const auto memory = std::make_shared<MemoryStore>();
  memory->hangs = true;
  const auto entry = shared_entry("p");
  const auto size = static_cast<int64_t>(entry->size());
  FleetTier tier(store_of(memory), {.max_waiting_bytes = 10 * size});
  const auto start = steady_clock::now();
  for (int i = 0; i < 100; ++i) tier.write(key_of("p"), entry);
  EXPECT_LT(steady_clock::now() - start, milliseconds(5'000));
  EXPECT_GE(tier.stats().dropped, 89);
  EXPECT_FALSE(tier.flush(milliseconds(10)));
  memory->let_go();
  EXPECT_TRUE(tier.flush(milliseconds(10'000)));
  EXPECT_EQ(tier.stats().writes + tier.stats().dropped, 100);
}

TEST(FleetTier, FailingWritesSwitchItOffWithOneWarningEach) {
  const Warnings warnings;
  const auto memory = std::make_shared<MemoryStore>();
  memory->fails = true;
  FleetTier tier(store_of(memory), {});
  for (int i = 0; i < 10; ++i) tier.write(key_of("p"), shared_entry("p"));
  EXPECT_TRUE(tier.flush(milliseconds(10'000)));
  EXPECT_FALSE(tier.stats().on);
  EXPECT_EQ(tier.stats().failures, 3);
  EXPECT_EQ(tier.stats().dropped, 7);
  EXPECT_EQ(warnings.count(), 2U);
}

TEST(FleetTier, ClosingWaitsForWritesButNotForEver) {
  const auto memory = std::make_shared<MemoryStore>();
  {
    FleetTier tier(store_of(memory), {});
    for (int i = 0; i < 50; ++i) tier.write(key_of(std::to_string(i)), shared_entry("p"));
    tier.close(milliseconds(10'000));
    EXPECT_EQ(memory->files.size(), 50U);
    EXPECT_EQ(tier.read(key_of("p")), std::nullopt);
  }
  memory->hangs = true;
  {
    FleetTier tier(store_of(memory), {});
    for (int i = 0; i < 50; ++i) tier.write(key_of(std::to_string(i)), shared_entry("p"));
    const auto start = steady_clock::now();
    tier.close(milliseconds(50));
    EXPECT_LT(steady_clock::now() - start, milliseconds(5'000));
  }
  memory->let_go();
}

TEST(FleetTier, ClosingFreesThoseWhoWaitForARead) {
  const Warnings warnings;
  const auto memory = std::make_shared<MemoryStore>();
  memory->hangs = true;
  FleetTier tier(store_of(memory), {.read_limit = milliseconds(60'000)});
  std::thread reader([&] { EXPECT_EQ(tier.read(key_of("p")), std::nullopt); });
  while (true) {
    std::lock_guard lock(memory->mutex);
    if (memory->reads == 1) break;
  }
  tier.close(milliseconds(0));
  reader.join();
  memory->let_go();
  EXPECT_EQ(warnings.count(), 0U);
}

TEST(FleetTier, ManyThreadsReadAndWriteAtOnce) {
  const Warnings warnings;
  const auto memory = std::make_shared<MemoryStore>();
  FleetTier tier(store_of(memory), {});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = std::to_string((i + t) % 20);
        const auto bytes = tier.read(key_of(name));
        if (bytes && *bytes != entry_of(name, "code")) ++wrong;
        if (!bytes) tier.write(key_of(name), shared_entry(name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(tier.flush(milliseconds(10'000)));
  EXPECT_EQ(memory->files.size(), 20U);
}

}  // namespace
}  // namespace torch_tpu::cache
