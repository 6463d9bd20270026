#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

class OperatorTable;

void register_max_pooling(OperatorTable& table);
void register_average_pooling(OperatorTable& table);

// A list argument of a pooling operator with one entry per spatial dimension; one entry stands for
// all.
inline IntList per_dimension(const IntList& list, size_t n, const IntList& if_empty = {}) {
  if (list.empty()) return if_empty;
  return list.size() == 1 ? IntList(n, list[0]) : list;
}

// Window o of adaptive pooling is [floor(o * in / out), ceil((o + 1) * in / out)).
inline int64_t adaptive_start(int64_t o, int64_t in, int64_t out) { return o * in / out; }
inline int64_t adaptive_end(int64_t o, int64_t in, int64_t out) {
  return ((o + 1) * in + out - 1) / out;
}

}  // namespace torch_tpu::lowering
