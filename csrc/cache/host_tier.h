#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cache/entry.h"
#include "cache/file.h"
#include "cache/key.h"
#include "cache/key_lock.h"

namespace torch_tpu::cache {

// Counters since the tier was made.
struct HostStats {
  int64_t reads = 0;
  int64_t hits = 0;
  int64_t misses = 0;
  int64_t bytes_read = 0;
  int64_t writes = 0;
  int64_t write_failures = 0;
  int64_t bytes_written = 0;
  int64_t set_aside = 0;  // entries that were damaged, foreign or refused by the plugin
  int64_t evictions = 0;
  int64_t evicted_bytes = 0;
  int64_t lock_waits = 0;
  int64_t lock_timeouts = 0;
  double lock_wait_seconds = 0;
};

// What a folder holds.
struct HostUsage {
  int64_t entries = 0;
  int64_t bytes = 0;
  int64_t quarantined = 0;
  int64_t quarantined_bytes = 0;
  int64_t unfinished = 0;  // writes under way, or whose process was killed
};

struct HostEntry {
  Key key;
  EntryState state = EntryState::kGood;  // as far as it was checked
  EntryKind kind = EntryKind::kProgram;
  std::string name;
  std::string origin;
  int64_t bytes = 0;
  int64_t written_ns = 0;  // since 1970
  int64_t used_ns = 0;
};

// A folder of entries that all processes of a user on this machine share.
//
//   <folder>/v1/entries/ab/ab...   one file an entry, named by its key
//               temporary/         writes under way; a finished one is renamed into place
//               locks/             a file for each program that is being compiled
//               quarantine/        entries set aside, a few, for diagnosis
//               pruned             its time is that of the last look for old entries
//
// The folder must belong to the user and be writable by nobody else: entries are code. No function
// fails for what befalls the folder (full, read-only, removed, damaged): a read is then a miss, a
// write does nothing, and warn_once says it. Thread-safe.
class HostTier {
 public:
  struct Options {
    std::string folder;
    int64_t max_bytes = int64_t{4} << 30;
    // How long to wait for another process that compiles the same program.
    std::chrono::milliseconds lock_limit{120'000};
    // False: a missing folder stays missing.
    bool create = true;
    // For tests: called with the name of the step that a write begins; the clock, in nanoseconds
    // since 1970.
    std::function<void(std::string_view step)> on_step = nullptr;
    std::function<int64_t()> now = nullptr;
  };

  explicit HostTier(Options options);

  // False once the folder was found to be unusable; then nothing is read or written.
  bool usable();
  const std::string& folder() const { return options_.folder; }
  int64_t max_bytes() const { return options_.max_bytes; }

  // The entry's bytes as encode_entry made them, checked; an entry that is no good is set aside.
  std::optional<std::string> read(const Key& key);
  // `encoded` is what encode_entry gave for that key. Atomic: readers see the whole or nothing,
  // even if this process is killed. Now and then also prunes. Whether it is stored.
  bool write(const Key& key, std::string_view encoded);
  // Moves an entry out of the way that passed all checks and still can't be used.
  void set_aside(const Key& key, std::string_view why);

  // Waits until no other process or thread holds the lock of the key, for at most the limit. The
  // caller looks again for the entry then, and compiles while it holds the lock, or while nobody
  // can tell (kTimedOut, kUnavailable).
  std::unique_ptr<KeyLock> lock(const Key& key);

  HostStats stats() const;

  // Maintenance. `check` reads whole entries instead of their headers, and sets aside bad ones.
  std::vector<HostEntry> list(bool check = false);
  HostUsage usage();
  // Removes what was not used for longest until at most `max_bytes` remain, and what killed
  // processes left. The number of entries removed.
  int64_t prune(int64_t max_bytes);
  // Removes everything. The number of entries removed.
  int64_t clear();

 private:
  struct Folders {
    File root;
    File entries;
    std::shared_ptr<const File> temporary;
    std::shared_ptr<const File> locks;
    File quarantine;
  };
  using FoldersRef = std::shared_ptr<const Folders>;
  struct Item;  // an entry's file

  // Null when the folder can't be used.
  FoldersRef folders();
  FoldersRef open_folders();
  // Forgets the folders if they were removed, so that they are made again; whether they were.
  bool were_removed(const FoldersRef& folders);
  bool is_safe(const struct stat& info) const;
  std::optional<std::string> read_file(const Folders& folders, const Key& key);
  bool write_file(const Folders& folders, const Key& key, std::string_view encoded);
  void set_aside(const Folders& folders, const Key& key, std::string_view kind,
                 std::string_view why);
  void bound_quarantine(const Folders& folders) const;
  bool prune_is_due(const Folders& folders, int64_t bytes);
  std::vector<Item> items(const Folders& folders) const;
  void remove_leftovers(const FoldersRef& folders, bool all) const;
  int64_t now() const;
  void step(std::string_view name) const {
    if (options_.on_step) options_.on_step(name);
  }
  template <typename Change>
  void count(Change change) {
    std::lock_guard lock(mutex_);
    change(stats_);
  }

  Options options_;
  mutable std::mutex mutex_;
  FoldersRef folders_;
  bool refused_ = false;
  HostStats stats_;
  int64_t bytes_since_prune_ = 0;
  int64_t writes_since_look_ = 0;
};

}  // namespace torch_tpu::cache
