#include "eager/device_index.h"

namespace torch_tpu::eager {
namespace {

thread_local int current = 0;

}  // namespace

int current_device() { return current; }

void set_current_device(int index) { current = index; }

}  // namespace torch_tpu::eager
