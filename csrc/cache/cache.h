#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "cache/entry.h"
#include "cache/fleet_tier.h"
#include "cache/host_tier.h"
#include "cache/key.h"

namespace torch_tpu::cache {

// Where a program came from.
enum class Source {
  kHost,      // the folder shared by the processes of this machine
  kFleet,     // the store shared by many machines
  kThread,    // another thread compiled it at the same time
  kCompiled,  // compiled by this call
};
// "host", "fleet", "thread", "compiled".
std::string_view source_name(Source source);

// Counters since the cache was made.
struct CacheStats {
  int64_t requests = 0;
  int64_t host_hits = 0;
  int64_t fleet_hits = 0;
  int64_t thread_hits = 0;
  int64_t compilations = 0;
  int64_t refused = 0;    // entries that were whole but the plugin would not load
  int64_t forbidden = 0;  // compilations that would have been
  double compile_seconds = 0;
  double load_seconds = 0;
};

// A program that no tier has, while compiling is forbidden. It may be asked for again later.
class CompilingForbidden : public Error {
 public:
  explicit CompilingForbidden(std::string_view program);
};

// How to get at a program. The three may be called from the thread that calls load_or_compile only.
struct Work {
  // Takes what serialize gave, maybe in another process. Throws when it can't be used.
  std::function<void(std::string_view payload)> load;
  std::function<void()> compile;
  // After compile; throws where the plugin can't, and the program isn't stored then.
  std::function<std::string()> serialize;
};

// The tiers below memory, and one compilation for all who ask at the same time: threads wait for
// the thread, processes for the process that was first. Thread-safe.
class Cache {
 public:
  // Null means without that tier.
  explicit Cache(std::unique_ptr<HostTier> host) : host_(std::move(host)) {}

  // Loads the program from a tier, or compiles and stores it. Throws what work.compile throws, and
  // CompilingForbidden. An entry that work.load throws for is set aside, unless for lack of device
  // memory: that error is passed on.
  Source load_or_compile(const Key& key, std::string_view name, const Work& work);

  // The same for a value that is moved about.
  template <typename Value, typename Load, typename Compile, typename Serialize>
  std::pair<Value, Source> load_or_compile(const Key& key, std::string_view name, Load load,
                                           Compile compile, Serialize serialize) {
    std::optional<Value> value;
    const Source source = load_or_compile(
        key, name,
        {[&](std::string_view payload) { value.emplace(load(payload)); },
         [&] { value.emplace(compile()); }, [&] { return std::string(serialize(*value)); }});
    return {std::move(*value), source};
  }

  // Small things beside the programs, such as the index from calls to programs.
  std::optional<std::string> find(const Key& key);
  void store(const Key& key, EntryKind kind, std::string_view name, std::string_view payload);

  // Nested: as many allow calls as forbid calls.
  void forbid_compiling() { ++forbidden_; }
  void allow_compiling() { --forbidden_; }
  bool compiling_is_forbidden() const { return forbidden_ > 0; }

  // False: every request compiles, nothing is read or stored.
  void set_enabled(bool enabled) { enabled_ = enabled; }
  bool enabled() const { return enabled_; }

  // Replaces the fleet tier.
  void set_fleet(std::shared_ptr<FleetTier> fleet);
  std::shared_ptr<FleetTier> fleet() const;
  HostTier* host() const { return host_.get(); }

  // What is written into the entries made from now on, for people: "torch_tpu 0.1.0, cpu".
  void set_origin(std::string origin);

  CacheStats stats() const;

 private:
  struct Flight;
  // Says at the end of its life that the flight is over.
  class Pilot;

  bool try_load(const Work& work, std::string_view payload);
  bool load_from_host(const Key& key, const Work& work);
  bool load_from_fleet(const Key& key, const Work& work);
  void compile(std::string_view name, const Work& work);
  // The entry's bytes, or nothing where the plugin can't serialise.
  std::shared_ptr<const std::string> encode(const Key& key, std::string_view name,
                                            const Work& work);
  std::string origin() const;
  template <typename Change>
  void count(Change change) {
    std::lock_guard lock(mutex_);
    change(stats_);
  }

  const std::unique_ptr<HostTier> host_;
  std::atomic<int> forbidden_{0};
  std::atomic<bool> enabled_{true};
  mutable std::mutex mutex_;
  std::shared_ptr<FleetTier> fleet_;
  std::string origin_;
  std::unordered_map<Key, std::shared_ptr<Flight>> flights_;
  CacheStats stats_;
};

}  // namespace torch_tpu::cache
