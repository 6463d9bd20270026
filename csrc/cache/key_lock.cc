#include "cache/key_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

namespace torch_tpu::cache {
namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr microseconds kFirstPause{100};
constexpr microseconds kLongestPause{10'000};

// Whether the file is still the one that others find under the name.
bool is_current(int folder, const std::string& name, int descriptor) {
  struct stat ours;
  struct stat found;
  return ::fstat(descriptor, &ours) == 0 &&
         ::fstatat(folder, name.c_str(), &found, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == found.st_ino && ours.st_dev == found.st_dev;
}

}  // namespace

KeyLock::KeyLock(std::shared_ptr<const File> folder, std::string name,
                 std::chrono::milliseconds limit)
    : folder_(std::move(folder)), name_(std::move(name)), state_(acquire(limit)) {
  if (state_ != State::kHeld) file_ = File();
}

KeyLock::State KeyLock::acquire(std::chrono::milliseconds limit) {
  const auto start = steady_clock::now();
  // flock can't wait for a limited time without signals, hence the pauses.
  microseconds pause = kFirstPause;
  while (true) {
    file_ = open_at(folder_->descriptor(), name_, O_RDWR | O_CREAT);
    if (!file_) return State::kUnavailable;
    while (::flock(file_.descriptor(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return State::kUnavailable;
      if (steady_clock::now() - start >= limit) return State::kTimedOut;
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 3 / 2, kLongestPause);
      waited_ = std::chrono::duration_cast<microseconds>(steady_clock::now() - start);
    }
    // Its last holder may have removed it between our open and our lock.
    if (is_current(folder_->descriptor(), name_, file_.descriptor())) return State::kHeld;
  }
}

KeyLock::~KeyLock() {
  if (state_ != State::kHeld) return;
  ::unlinkat(folder_->descriptor(), name_.c_str(), 0);
  // Closing would not do: a process forked meanwhile shares the lock.
  ::flock(file_.descriptor(), LOCK_UN);
}

}  // namespace torch_tpu::cache
