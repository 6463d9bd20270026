#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "cache/entry.h"
#include "cache/host_layout.h"
#include "cache/host_tier.h"
#include "cache/key.h"
#include "cache/warn_once.h"

namespace torch_tpu::cache::testing {

namespace fs = std::filesystem;

// Removed at the end of the test, whatever its permissions.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "torch_tpu_cache_test.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    for (const char* part : {"", "/cache", "/cache/v1"})
      fs::permissions(path_ + part, fs::perms::owner_all, ignored);
    fs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  // Not there yet.
  std::string cache() const { return path_ + "/cache"; }

 private:
  std::string path_;
};

// Catches the warnings of one test.
class Warnings {
 public:
  Warnings() {
    forget_warnings();
    previous_ = set_warning_sink([this](std::string_view message) {
      std::lock_guard lock(mutex_);
      messages_.emplace_back(message);
    });
  }
  ~Warnings() {
    set_warning_sink(previous_);
    forget_warnings();
  }
  std::vector<std::string> messages() const {
    std::lock_guard lock(mutex_);
    return messages_;
  }
  size_t count() const { return messages().size(); }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
  WarningSink previous_;
};

inline Key key_of(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return {hash.digest()};
}

inline std::string entry_of(std::string_view name, std::string_view payload) {
  return encode_entry({key_of(name), EntryKind::kProgram, name, "a test", payload});
}

inline std::string file_of(const std::string& folder, std::string_view name) {
  return folder + "/" + kVersionFolder + "/entries/" + entry_path(key_of(name));
}

inline std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void overwrite(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline size_t files_in(const std::string& path) {
  std::error_code error;
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    (void)entry;
    ++count;
  }
  return count;
}

// Runs `body` in a process of its own, which ends without running destructors or exit handlers.
inline pid_t start_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    int code = 120;
    try {
      code = body();
    } catch (...) {
    }
    ::_exit(code);
  }
  return child;
}

// The exit code, or minus the signal that killed it.
inline int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

inline int run_in_child(const std::function<int()>& body) { return wait_for(start_child(body)); }

}  // namespace torch_tpu::cache::testing
