#include "pjrt/elf_check.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/byte_size.h"
#include "base/error.h"

namespace torch_tpu::pjrt {
namespace {

#if defined(__x86_64__)
constexpr uint16_t kMachine = EM_X86_64;
constexpr const char* kMachineName = "x86-64";
#elif defined(__aarch64__)
constexpr uint16_t kMachine = EM_AARCH64;
constexpr const char* kMachineName = "aarch64";
#else
#error "no ELF machine number for this architecture"
#endif

class File {
 public:
  explicit File(const std::string& path)
      // A FIFO would block an ordinary open for ever.
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    TT_CHECK(descriptor_ >= 0, kUnavailable, "PJRT plugin ", path, ": ", std::strerror(errno));
    struct stat status{};
    const bool known = ::fstat(descriptor_, &status) == 0;
    if (!known || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      fail(ErrorKind::kUnavailable, "PJRT plugin ", path, " is not a regular file",
           known && S_ISDIR(status.st_mode) ? " but a directory" : "");
    }
    size_ = static_cast<uint64_t>(status.st_size);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { ::close(descriptor_); }

  const std::string& path() const { return path_; }
  uint64_t size() const { return size_; }
  bool contains(uint64_t offset, uint64_t size) const {
    return offset <= size_ && size <= size_ - offset;
  }
  void read(uint64_t offset, void* target, size_t size) const {
    auto* next = static_cast<char*>(target);
    while (size > 0) {
      const ssize_t count = ::pread(descriptor_, next, size, static_cast<off_t>(offset));
      if (count < 0 && errno == EINTR) continue;
      TT_CHECK(count > 0, kUnavailable, "PJRT plugin ", path_,
               " can't be read: ", count < 0 ? std::strerror(errno) : "unexpected end of file");
      next += count;
      offset += static_cast<uint64_t>(count);
      size -= static_cast<size_t>(count);
    }
  }

 private:
  std::string path_;
  int descriptor_;
  uint64_t size_ = 0;
};

[[noreturn]] void fail_truncated(const File& file, uint64_t needed) {
  fail(ErrorKind::kUnavailable, "PJRT plugin ", file.path(), " is truncated: it holds ",
       format_byte_size(static_cast<int64_t>(file.size())), " (", file.size(),
       "), its headers speak of at least ", needed, "; install it again");
}

void require_inside(const File& file, uint64_t offset, uint64_t size) {
  if (!file.contains(offset, size)) fail_truncated(file, offset + size);
}

}  // namespace

void check_shared_object(const std::string& path) {
  const File file(path);
  const auto refuse = [&](const auto&... reason) {
    fail(ErrorKind::kUnavailable, "PJRT plugin ", path, " ", reason...);
  };

  if (file.size() < SELFMAG) refuse("is not a shared library: it has ", file.size(), " bytes");
  Elf64_Ehdr header{};
  file.read(0, header.e_ident, SELFMAG);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
    refuse("is not a shared library: no ELF header");
  }
  require_inside(file, 0, sizeof header);
  file.read(0, &header, sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    refuse("is not a 64-bit little-endian library");
  }
  if (header.e_machine != kMachine) {
    refuse("is built for another machine (ELF number ", header.e_machine, "); this one is ",
           kMachineName, " (", kMachine, ")");
  }
  if (header.e_type != ET_DYN) refuse("is an ELF file but no shared library");
  if (header.e_phnum == 0 || header.e_phentsize != sizeof(Elf64_Phdr)) {
    refuse("has no valid program headers");
  }

  require_inside(file, header.e_phoff, uint64_t{header.e_phnum} * sizeof(Elf64_Phdr));
  std::vector<Elf64_Phdr> segments(header.e_phnum);
  file.read(header.e_phoff, segments.data(), segments.size() * sizeof(Elf64_Phdr));
  bool has_load = false;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type != PT_LOAD && segment.p_type != PT_DYNAMIC) continue;
    require_inside(file, segment.p_offset, segment.p_filesz);
    has_load |= segment.p_type == PT_LOAD;
  }
  if (!has_load) refuse("has no loadable segment");

  // The loader doesn't need the section table, but it usually ends the file: one that is missing
  // shows a download cut short after the last segment.
  if (header.e_shoff != 0) {
    require_inside(file, header.e_shoff, uint64_t{header.e_shnum} * header.e_shentsize);
  }
}

}  // namespace torch_tpu::pjrt
