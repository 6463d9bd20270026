#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cache/key.h"

namespace torch_tpu::cache {

// A store far away, such as a bucket. Names are paths like "v1/ab/ab12...". Both functions may take
// as long as they like and throw anything derived from std::exception; they are called from threads
// of the tier's own, several at a time.
struct FleetStore {
  // Nothing when there is no such name.
  std::function<std::optional<std::string>(const std::string& name)> read;
  std::function<void(const std::string& name, const std::string& bytes)> write;
};

// Counters since the tier was made.
struct FleetStats {
  int64_t reads = 0;
  int64_t hits = 0;
  int64_t misses = 0;    // including failures and time-outs
  int64_t failures = 0;  // of reads and writes, time-outs included
  int64_t timeouts = 0;
  int64_t damaged = 0;  // what was read failed the check, or the plugin refused it
  int64_t bytes_read = 0;
  int64_t writes = 0;
  int64_t bytes_written = 0;
  int64_t dropped = 0;  // writes given up: too many waiting, or the tier was switched off
  bool on = true;
};

// The entries of many machines. What is read counts as an entry only if it is whole and of the key
// asked for; who made it nobody checks, so whoever can write to the store can run code here. Slow,
// failing and lying stores are misses with one warning; after a few in a row the tier is switched
// off for this process. Thread-safe.
class FleetTier {
 public:
  struct Options {
    std::chrono::milliseconds read_limit{3'000};
    int failures_in_a_row = 3;
    int64_t max_waiting_bytes = int64_t{256} << 20;  // of writes
  };

  FleetTier(FleetStore store, Options options);
  FleetTier(const FleetTier&) = delete;
  // As close, without waiting for anything.
  ~FleetTier();

  // The entry's bytes, checked. Returns within the limit, whatever the store does.
  std::optional<std::string> read(const Key& key);
  // Returns at once; the write happens later on a thread of the tier's.
  void write(const Key& key, std::shared_ptr<const std::string> encoded);
  // An entry read passed the check and still can't be used.
  void refused(const Key& key);

  // Waits until all writes are done, for at most the limit; whether they are.
  bool flush(std::chrono::milliseconds limit);
  // Switches the tier off, having waited for calls of the store that are under way for at most the
  // limit. Waiting writes are done first, as far as the limit allows.
  void close(std::chrono::milliseconds limit);

  FleetStats stats() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace torch_tpu::cache
