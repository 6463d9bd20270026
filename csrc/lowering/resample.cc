#include "lowering/resample.h"

#include "lowering/families.h"

namespace torch_tpu::lowering {

void register_resample(OperatorTable& table) {
  register_upsample(table);
  register_grid_sampler(table);
}

}  // namespace torch_tpu::lowering
