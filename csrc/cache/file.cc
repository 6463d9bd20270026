#include "cache/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

namespace torch_tpu::cache {

File::~File() {
  if (descriptor_ < 0) return;
  const int saved = errno;
  ::close(descriptor_);
  errno = saved;
}

File open_at(int folder, const std::string& name, int flags, unsigned mode) {
  while (true) {
    const int descriptor = ::openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode);
    if (descriptor >= 0 || errno != EINTR) return File(descriptor);
  }
}

File open_subfolder(int folder, const std::string& name) {
  File subfolder = open_at(folder, name, O_RDONLY | O_DIRECTORY);
  if (subfolder || errno != ENOENT) return subfolder;
  if (::mkdirat(folder, name.c_str(), 0700) != 0 && errno != EEXIST) return File();
  return open_at(folder, name, O_RDONLY | O_DIRECTORY);
}

bool make_folders(const std::string& path) {
  for (size_t end = 0; end != std::string::npos;) {
    end = path.find('/', end + 1);
    const std::string part = path.substr(0, end);
    if (!part.empty() && ::mkdir(part.c_str(), 0700) != 0 && errno != EEXIST) {
      // What is there already need not be writable, only what is missing.
      struct stat info;
      if (::stat(part.c_str(), &info) != 0) return false;
    }
  }
  return true;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      if (count == 0) errno = ENOSPC;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

bool read_all(int descriptor, size_t size, std::string& bytes) {
  bytes.resize(size);
  size_t done = 0;
  errno = 0;
  while (done < size) {
    const ssize_t count = ::read(descriptor, bytes.data() + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return done == size;
}

bool list_folder(int folder, const std::function<void(const std::string& name)>& visit) {
  // A descriptor of its own: reading moves its position, and closedir closes it.
  const int descriptor = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return false;
  DIR* raw = ::fdopendir(descriptor);
  if (raw == nullptr) {
    ::close(descriptor);
    return false;
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(raw, &::closedir);
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") visit(name);
  }
  return true;
}

}  // namespace torch_tpu::cache
