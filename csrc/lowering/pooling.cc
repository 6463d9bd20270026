#include "lowering/pooling.h"

#include "lowering/families.h"

namespace torch_tpu::lowering {

void register_pooling(OperatorTable& table) {
  register_max_pooling(table);
  register_average_pooling(table);
}

}  // namespace torch_tpu::lowering
