// HostTier's listing, pruning and clearing.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include "base/concat.h"
#include "cache/host_layout.h"
#include "cache/host_tier.h"

namespace torch_tpu::cache {
namespace {

constexpr int64_t kPruneInterval = 600 * kSecond;
constexpr int64_t kWritesBetweenLooks = 256;
// A write takes less; what is older was left by a process that was killed.
constexpr int64_t kLeftoverAge = 3600 * kSecond;
constexpr size_t kMaxQuarantined = 16;
constexpr int64_t kMaxQuarantinedBytes = int64_t{64} << 20;

struct OldFile {
  std::string name;
  int64_t time;
  int64_t bytes;
};

std::vector<OldFile> files_of(int folder) {
  std::vector<OldFile> files;
  list_folder(folder, [&](const std::string& name) {
    struct stat info;
    if (::fstatat(folder, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
      files.push_back({name, nanoseconds(info.st_mtim), info.st_size});
  });
  return files;
}

// Left over, unless the clock jumped: then a write under way is lost, which is no more than a miss.
bool is_old(int64_t time, int64_t now) { return std::abs(now - time) > kLeftoverAge; }

}  // namespace

struct HostTier::Item {
  Key key;
  int64_t bytes;
  int64_t written_ns;
  int64_t used_ns;
};

std::vector<HostTier::Item> HostTier::items(const Folders& folders) const {
  std::vector<Item> items;
  const int entries = folders.entries.descriptor();
  list_folder(entries, [&](const std::string& subfolder_name) {
    const File subfolder = open_at(entries, subfolder_name, O_RDONLY | O_DIRECTORY);
    if (!subfolder) return;
    list_folder(subfolder.descriptor(), [&](const std::string& name) {
      const std::optional<Key> key = Key::from_hex(name);
      struct stat info;
      if (key && ::fstatat(subfolder.descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0)
        items.push_back({*key, info.st_size, nanoseconds(info.st_mtim), nanoseconds(info.st_atim)});
    });
  });
  return items;
}

std::vector<HostEntry> HostTier::list(bool check) {
  std::vector<HostEntry> entries;
  const FoldersRef open = folders();
  if (!open) return entries;
  for (const Item& item : items(*open)) {
    HostEntry entry;
    entry.key = item.key;
    entry.bytes = item.bytes;
    entry.written_ns = item.written_ns;
    entry.used_ns = item.used_ns;
    // O_NOATIME: looking at an entry is not using it. Refused for files of others.
    const File file = open_at(open->entries.descriptor(), entry_path(item.key),
                              O_RDONLY | O_NONBLOCK | O_NOATIME);
    if (!file && errno == ENOENT) continue;  // removed meanwhile
    constexpr int64_t kStart = kEntryHeaderSize + 2 * 4096;
    const int64_t wanted = check ? item.bytes : std::min(item.bytes, kStart);
    std::string bytes;
    struct stat info;
    if (file && ::fstat(file.descriptor(), &info) == 0 && S_ISREG(info.st_mode) && is_safe(info))
      read_all(file.descriptor(), static_cast<size_t>(wanted), bytes);
    if (check) entry.state = decode_entry(bytes, item.key).state;
    if (const std::optional<Entry> header = peek_entry(bytes)) {
      entry.kind = header->kind;
      entry.name = header->name;
      entry.origin = header->origin;
    } else if (!check) {
      entry.state = decode_entry(bytes, item.key).state;
    }
    if (check && entry.state != EntryState::kGood) {
      const std::string_view name = entry_state_name(entry.state);
      set_aside(*open, item.key, name, concat("is ", name));
    }
    entries.push_back(std::move(entry));
  }
  std::ranges::sort(entries, {}, [](const HostEntry& e) { return std::pair(-e.used_ns, e.key); });
  return entries;
}

HostUsage HostTier::usage() {
  HostUsage usage;
  const FoldersRef open = folders();
  if (!open) return usage;
  for (const Item& item : items(*open)) {
    ++usage.entries;
    usage.bytes += item.bytes;
  }
  for (const OldFile& file : files_of(open->quarantine.descriptor())) {
    ++usage.quarantined;
    usage.quarantined_bytes += file.bytes;
  }
  usage.unfinished = static_cast<int64_t>(files_of(open->temporary->descriptor()).size());
  return usage;
}

bool HostTier::prune_is_due(const Folders& folders, int64_t bytes) {
  {
    std::lock_guard lock(mutex_);
    bytes_since_prune_ += bytes;
    const bool look = writes_since_look_++ % kWritesBetweenLooks == 0;
    if (bytes_since_prune_ > options_.max_bytes / 16) return true;
    if (!look) return false;
  }
  struct stat info;
  if (::fstatat(folders.root.descriptor(), kPruneStamp, &info, AT_SYMLINK_NOFOLLOW) != 0)
    return true;
  return std::abs(now() - nanoseconds(info.st_mtim)) > kPruneInterval;
}

int64_t HostTier::prune(int64_t max_bytes) {
  const FoldersRef open = folders();
  if (!open) return 0;
  const int64_t time = now();
  const timespec times[2] = {to_timespec(time), to_timespec(time)};
  const File stamp = open_at(open->root.descriptor(), kPruneStamp, O_WRONLY | O_CREAT);
  if (!stamp) return 0;  // read-only
  // One process is enough; the others go on.
  if (::flock(stamp.descriptor(), LOCK_EX | LOCK_NB) != 0) return 0;
  ::futimens(stamp.descriptor(), times);
  {
    std::lock_guard lock(mutex_);
    bytes_since_prune_ = 0;
  }
  remove_leftovers(open, /*all=*/false);

  std::vector<Item> found = items(*open);
  int64_t total = 0;
  const int entries = open->entries.descriptor();
  for (Item& item : found) {
    total += item.bytes;
    if (item.used_ns > time) {
      // The clock was ahead when it was used. From now on it ages like the others.
      item.used_ns = time;
      const timespec used[2] = {to_timespec(time), {0, UTIME_OMIT}};
      ::utimensat(entries, entry_path(item.key).c_str(), used, AT_SYMLINK_NOFOLLOW);
    }
  }
  if (total <= max_bytes) return 0;
  std::ranges::sort(found, {}, [](const Item& i) { return std::pair(i.used_ns, i.key); });
  // Some room, so that the next write doesn't have to prune again.
  const int64_t target = max_bytes - max_bytes / 10;
  int64_t removed = 0;
  int64_t removed_bytes = 0;
  for (const Item& item : found) {
    if (total - removed_bytes <= target) break;
    if (::unlinkat(entries, entry_path(item.key).c_str(), 0) != 0) continue;
    ++removed;
    removed_bytes += item.bytes;
  }
  count([&](HostStats& s) {
    s.evictions += removed;
    s.evicted_bytes += removed_bytes;
  });
  return removed;
}

void HostTier::remove_leftovers(const FoldersRef& folders, bool all) const {
  const int64_t time = now();
  for (const OldFile& file : files_of(folders->temporary->descriptor())) {
    if (all || is_old(file.time, time))
      ::unlinkat(folders->temporary->descriptor(), file.name.c_str(), 0);
  }
  for (const OldFile& file : files_of(folders->locks->descriptor())) {
    // Taking a lock and letting go of it removes its file.
    if (is_old(file.time, time)) KeyLock(folders->locks, file.name, std::chrono::milliseconds(0));
  }
}

void HostTier::bound_quarantine(const Folders& folders) const {
  const int quarantine = folders.quarantine.descriptor();
  std::vector<OldFile> files = files_of(quarantine);
  int64_t bytes = 0;
  for (const OldFile& file : files) bytes += file.bytes;
  std::ranges::sort(files, {}, &OldFile::time);
  size_t count = files.size();
  for (const OldFile& file : files) {
    if (count <= kMaxQuarantined && bytes <= kMaxQuarantinedBytes) break;
    ::unlinkat(quarantine, file.name.c_str(), 0);
    --count;
    bytes -= file.bytes;
  }
}

int64_t HostTier::clear() {
  const FoldersRef open = folders();
  if (!open) return 0;
  int64_t removed = 0;
  for (const Item& item : items(*open)) {
    if (::unlinkat(open->entries.descriptor(), entry_path(item.key).c_str(), 0) == 0) ++removed;
  }
  for (const OldFile& file : files_of(open->quarantine.descriptor()))
    ::unlinkat(open->quarantine.descriptor(), file.name.c_str(), 0);
  remove_leftovers(open, /*all=*/true);
  return removed;
}

}  // namespace torch_tpu::cache
