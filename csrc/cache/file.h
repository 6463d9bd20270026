#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace torch_tpu::cache {

// Owns a file descriptor; -1 is none.
class File {
 public:
  File() = default;
  explicit File(int adopted) : descriptor_(adopted) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File();

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

// The functions below never throw; on failure errno says why.

// Opens `name` in the folder (AT_FDCWD: in the current one) without following a link at its end.
File open_at(int folder, const std::string& name, int flags, unsigned mode = 0600);
// Opens a subfolder, made with mode 0700 where it is missing.
File open_subfolder(int folder, const std::string& name);
// Makes the folder and those above it.
bool make_folders(const std::string& path);
bool write_all(int descriptor, std::string_view bytes);
// Everything from the current position, `size` bytes expected; false when it is fewer, errno being
// zero where the file just ends.
bool read_all(int descriptor, size_t size, std::string& bytes);
// Calls `visit` with each name in the folder but "." and "..". False when it can't be read.
bool list_folder(int folder, const std::function<void(const std::string& name)>& visit);

inline int64_t nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace torch_tpu::cache
