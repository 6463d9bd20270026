#include "eager/synchronize.h"

#include "runtime/runtime.h"

namespace torch_tpu::eager {

void synchronize_device(int device) {
  if (!runtime::Runtime::started()) return;
  runtime::Runtime& runtime = runtime::Runtime::get();
  runtime.synchronize(runtime.device(device));
}

}  // namespace torch_tpu::eager
