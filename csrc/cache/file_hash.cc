#include "cache/file_hash.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/concat.h"
#include "base/error.h"
#include "base/hash.h"

namespace torch_tpu::cache {
namespace {

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  return resolved ? resolved.get() : path;
}

}  // namespace

std::string file_sha256(const std::string& path, HostTier* host) {
  const std::string real = real_path(path);
  struct stat info;
  TT_CHECK(::stat(real.c_str(), &info) == 0, kUnavailable, "can't read ", path, ": ",
           std::strerror(errno));
  if (host == nullptr) return sha256_hex_of_file(real);
  // The time of the last change of its attributes can't be set back, unlike that of its content.
  const std::string identity =
      concat("file hash\n", real, '\n', info.st_dev, ' ', info.st_ino, ' ', info.st_size, ' ',
             nanoseconds(info.st_mtim), ' ', nanoseconds(info.st_ctim));
  Sha256 hash;
  hash.update(identity);
  const Key key{hash.digest()};
  if (const auto encoded = host->read(key)) {
    const std::string known(payload_of(*encoded));
    if (Key::from_hex(known)) return known;
  }
  std::string sha256 = sha256_hex_of_file(real);
  host->write(key, encode_entry({key, EntryKind::kFileHash, real, "", sha256}));
  return sha256;
}

std::string file_of_code(const void* address) {
  Dl_info info;
  if (::dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

}  // namespace torch_tpu::cache
