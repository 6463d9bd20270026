#pragma once

#include <string>

namespace torch_tpu::pjrt {

// Throws Error(kUnavailable) unless the path is a readable regular file that holds a complete ELF64
// shared object for this machine: every loaded segment and the section table lie inside the file.
// dlopen would map a truncated file and die of SIGBUS on first touch.
void check_shared_object(const std::string& path);

}  // namespace torch_tpu::pjrt
