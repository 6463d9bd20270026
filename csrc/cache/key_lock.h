#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "cache/file.h"

namespace torch_tpu::cache {

// A lock that one process, or thread, at a time holds for a name, as a file in a folder that they
// share. The kernel frees it when its holder dies. The file is removed by its holder, so that none
// are left over but those of killed processes.
class KeyLock {
 public:
  enum class State {
    kHeld,
    kTimedOut,     // another had it all the time
    kUnavailable,  // the folder can't be written, or its file system has no locks
  };

  // Waits for at most `limit`.
  KeyLock(std::shared_ptr<const File> folder, std::string name, std::chrono::milliseconds limit);
  KeyLock(KeyLock&&) = delete;
  ~KeyLock();

  State state() const { return state_; }
  // Zero when nobody else had it.
  std::chrono::microseconds waited() const { return waited_; }

 private:
  State acquire(std::chrono::milliseconds limit);

  std::shared_ptr<const File> folder_;
  std::string name_;
  File file_;
  std::chrono::microseconds waited_{0};
  State state_;
};

}  // namespace torch_tpu::cache
