// A plugin whose entry point aborts, as broken plugins do, or does what the variable
// ABORTING_PLUGIN_MODE says: "segfault", "hang", "exit", "null" (no API), "old" (an API struct
// that ends too early), "major" (another major version) or "empty" (no functions).

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "pjrt_c_api.h"

extern "C" const PJRT_Api* GetPjrtApi() {
  const char* text = std::getenv("ABORTING_PLUGIN_MODE");
  const std::string_view mode = text == nullptr ? "abort" : text;
  if (mode == "null") return nullptr;
  if (mode == "old" || mode == "major" || mode == "empty") {
    static PJRT_Api api{};
    api.struct_size = mode == "old" ? 64 : PJRT_Api_STRUCT_SIZE;
    api.pjrt_api_version.major_version = mode == "major" ? 1 : 0;
    return &api;
  }
  if (mode == "segfault") std::raise(SIGSEGV);
  if (mode == "hang") ::sleep(600);
  if (mode == "exit") ::_exit(7);
  std::fputs("the aborting plugin aborts\n", stderr);
  std::abort();
}
