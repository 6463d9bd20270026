#include "cache/host_tier.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <utility>

#include "base/concat.h"
#include "cache/host_layout.h"
#include "cache/warn_once.h"

namespace torch_tpu::cache {
namespace {

// Unlike a file's name this is the same for all versions, whatever they store.
constexpr char kBackupTag[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# Compiled programs of torch_tpu; may be deleted at any time. See "
    "https://bford.info/cachedir/\n";

void tag_for_backups(int folder) {
  const File tag = open_at(folder, "CACHEDIR.TAG", O_WRONLY | O_CREAT | O_EXCL);
  if (tag) write_all(tag.descriptor(), kBackupTag);
}

std::shared_ptr<const File> shared_subfolder(int folder, const char* name) {
  return std::make_shared<const File>(open_subfolder(folder, name));
}

}  // namespace

HostTier::HostTier(Options options) : options_(std::move(options)) {}

int64_t HostTier::now() const {
  if (options_.now) return options_.now();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

bool HostTier::is_safe(const struct stat& info) const {
  return info.st_uid == ::geteuid() && (info.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool HostTier::usable() { return folders() != nullptr; }

HostTier::FoldersRef HostTier::folders() {
  std::lock_guard lock(mutex_);
  if (!folders_ && !refused_) {
    folders_ = open_folders();
    refused_ = folders_ == nullptr;
  }
  return folders_;
}

HostTier::FoldersRef HostTier::open_folders() {
  const std::string& path = options_.folder;
  if (options_.create) make_folders(path);
  const File top(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat info;
  if (!top || ::fstat(top.descriptor(), &info) != 0) {
    if (options_.create)
      warn_once("folder", concat("off, since ", path, " can't be used: ", std::strerror(errno)));
    return nullptr;
  }
  if (!is_safe(info)) {
    warn_once("folder",
              concat("off, since ", path,
                     " must belong to the user and be writable by nobody else (chmod go-w), or "
                     "others could have their code run: it belongs to user ",
                     info.st_uid, " with mode ", (info.st_mode >> 6) & 7, (info.st_mode >> 3) & 7,
                     info.st_mode & 7));
    return nullptr;
  }
  auto folders = std::make_shared<Folders>();
  folders->root = options_.create
                      ? open_subfolder(top.descriptor(), kVersionFolder)
                      : open_at(top.descriptor(), kVersionFolder, O_RDONLY | O_DIRECTORY);
  const int root = folders->root.descriptor();
  if (folders->root) folders->entries = open_subfolder(root, "entries");
  if (!folders->entries || ::fstat(root, &info) != 0 || !is_safe(info)) {
    if (options_.create)
      warn_once("folder", concat("off, since ", path, "/", kVersionFolder,
                                 " can't be used: ", std::strerror(errno)));
    return nullptr;
  }
  // These may be missing in a folder that can only be read.
  folders->temporary = shared_subfolder(root, "temporary");
  folders->locks = shared_subfolder(root, "locks");
  folders->quarantine = open_subfolder(root, "quarantine");
  if (options_.create) tag_for_backups(top.descriptor());
  return folders;
}

bool HostTier::were_removed(const FoldersRef& folders) {
  struct stat info;
  const auto gone = [&](const File& folder) {
    return folder && (::fstat(folder.descriptor(), &info) != 0 || info.st_nlink == 0);
  };
  if (!gone(folders->entries) && !gone(*folders->temporary) && !gone(*folders->locks)) return false;
  std::lock_guard lock(mutex_);
  if (folders_ == folders) folders_ = nullptr;
  return true;
}

std::optional<std::string> HostTier::read(const Key& key) {
  std::optional<std::string> bytes;
  try {
    if (FoldersRef open = folders()) {
      bytes = read_file(*open, key);
      if (!bytes && were_removed(open)) {
        open = folders();
        if (open) bytes = read_file(*open, key);
      }
    }
  } catch (const std::exception& error) {  // no memory
    warn_once("read", concat("an entry can't be read: ", error.what()));
  }
  count([&](HostStats& s) {
    ++s.reads;
    ++(bytes ? s.hits : s.misses);
    if (bytes) s.bytes_read += static_cast<int64_t>(bytes->size());
  });
  return bytes;
}

std::optional<std::string> HostTier::read_file(const Folders& folders, const Key& key) {
  // O_NONBLOCK: never wait for the other end of a pipe that somebody put there.
  const File file = open_at(folders.entries.descriptor(), entry_path(key), O_RDONLY | O_NONBLOCK);
  struct stat info;
  if (!file || ::fstat(file.descriptor(), &info) != 0) {
    if (errno == ELOOP) {
      set_aside(folders, key, "foreign", "is a link");
    } else if (errno != ENOENT) {
      warn_once("read",
                concat("an entry in ", options_.folder, " can't be read: ", std::strerror(errno)));
    }
    return std::nullopt;
  }
  if (!S_ISREG(info.st_mode) || !is_safe(info)) {
    set_aside(folders, key, "foreign", "is no file that only the user can write");
    return std::nullopt;
  }
  if (info.st_size > options_.max_bytes) return std::nullopt;
  std::string bytes;
  if (!read_all(file.descriptor(), static_cast<size_t>(info.st_size), bytes) && errno != 0) {
    warn_once("read",
              concat("an entry in ", options_.folder, " can't be read: ", std::strerror(errno)));
    return std::nullopt;
  }
  const EntryState state = decode_entry(bytes, key).state;
  if (state != EntryState::kGood) {
    const std::string_view name = entry_state_name(state);
    set_aside(folders, key, name, concat("is ", name));
    return std::nullopt;
  }
  // Not at every use, to save the system call; also when the clock was ahead at the last one.
  const int64_t time = now();
  const int64_t used = nanoseconds(info.st_atim);
  if (time - used > kUseGranularity || used > time) {
    const timespec times[2] = {to_timespec(time), {0, UTIME_OMIT}};
    ::futimens(file.descriptor(), times);  // fails where the folder is read-only
  }
  return bytes;
}

bool HostTier::write(const Key& key, std::string_view encoded) {
  const auto size = static_cast<int64_t>(encoded.size());
  bool written = false;
  try {
    FoldersRef open = folders();
    if (!open || size > options_.max_bytes) return false;
    written = write_file(*open, key, encoded);
    if (!written && were_removed(open)) {
      open = folders();
      if (!open) return false;
      written = write_file(*open, key, encoded);
    }
    if (!written)
      warn_once("write", concat("programs can't be stored in ", options_.folder, ": ",
                                std::strerror(errno)));
    if (written && prune_is_due(*open, size)) prune(options_.max_bytes);
  } catch (const std::exception& error) {
    warn_once("write", concat("programs can't be stored: ", error.what()));
  }
  count([&](HostStats& s) {
    ++(written ? s.writes : s.write_failures);
    if (written) s.bytes_written += size;
  });
  return written;
}

bool HostTier::write_file(const Folders& folders, const Key& key, std::string_view encoded) {
  static std::atomic<int64_t> number{0};
  if (!*folders.temporary) {
    errno = EACCES;
    return false;
  }
  const int temporary = folders.temporary->descriptor();
  const int entries = folders.entries.descriptor();
  // The key makes it unique among machines that share the folder and have equal process ids.
  const std::string name =
      concat(::getpid(), '.', number++, '.', now(), '.', key.hex().substr(0, 8));
  step("create");
  const File file = open_at(temporary, name, O_WRONLY | O_CREAT | O_EXCL);
  if (!file) return false;
  const auto give_up = [&] {
    const int saved = errno;
    ::unlinkat(temporary, name.c_str(), 0);
    errno = saved;
    return false;
  };
  step("write first half");
  const std::string_view half = encoded.substr(0, encoded.size() / 2);
  if (!write_all(file.descriptor(), half)) return give_up();
  step("write second half");
  if (!write_all(file.descriptor(), encoded.substr(half.size()))) return give_up();
  const timespec time = to_timespec(now());
  const timespec times[2] = {time, time};
  ::futimens(file.descriptor(), times);
  step("rename");
  // No fsync: after a power cut the file may be short or empty, which its checksum tells.
  const std::string path = entry_path(key);
  if (::renameat(temporary, name.c_str(), entries, path.c_str()) != 0) {
    if (errno != ENOENT || !open_subfolder(entries, entry_subfolder(key)) ||
        ::renameat(temporary, name.c_str(), entries, path.c_str()) != 0)
      return give_up();
  }
  step("done");
  return true;
}

void HostTier::set_aside(const Key& key, std::string_view why) {
  if (const FoldersRef open = folders()) set_aside(*open, key, "refused", why);
}

void HostTier::set_aside(const Folders& folders, const Key& key, std::string_view kind,
                         std::string_view why) {
  static std::atomic<int64_t> number{0};
  const std::string path = entry_path(key);
  warn_once(kind, concat("entry ", path, " of ", options_.folder, ' ', why,
                         "; it is set aside and the program compiled anew"));
  count([](HostStats& s) { ++s.set_aside; });
  const int entries = folders.entries.descriptor();
  const std::string name = concat(key.hex(), '.', kind, '.', now(), '.', number++);
  if (folders.quarantine &&
      ::renameat(entries, path.c_str(), folders.quarantine.descriptor(), name.c_str()) == 0) {
    bound_quarantine(folders);
  } else {
    ::unlinkat(entries, path.c_str(), 0);
  }
}

std::unique_ptr<KeyLock> HostTier::lock(const Key& key) {
  FoldersRef open = folders();
  if (!open) return nullptr;
  auto lock = std::make_unique<KeyLock>(open->locks, key.hex(), options_.lock_limit);
  if (lock->state() == KeyLock::State::kUnavailable && were_removed(open)) {
    open = folders();
    if (!open) return nullptr;
    lock = std::make_unique<KeyLock>(open->locks, key.hex(), options_.lock_limit);
  }
  if (lock->state() == KeyLock::State::kTimedOut)
    warn_once("lock", concat("another process has been compiling the same program for ",
                             options_.lock_limit.count() / 1000.0, " s; not waiting any longer"));
  count([&](HostStats& s) {
    if (lock->waited().count() > 0) ++s.lock_waits;
    if (lock->state() == KeyLock::State::kTimedOut) ++s.lock_timeouts;
    s.lock_wait_seconds += std::chrono::duration<double>(lock->waited()).count();
  });
  return lock;
}

HostStats HostTier::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace torch_tpu::cache
