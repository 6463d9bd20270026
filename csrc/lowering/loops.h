#pragma once

#include <functional>
#include <span>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// for (i = begin; i < end; ++i) state = body(i, state). `begin` and `end` are int32 scalars; `body`
// may use values made outside of it.
inline Values for_loop(Lowering& b, Value begin, Value end, const Values& init,
                       const std::function<Values(Value i, std::span<const Value> state)>& body) {
  Values carried{begin};
  carried.insert(carried.end(), init.begin(), init.end());
  Values result = b.while_loop(
      carried, [&](std::span<const Value> a) { return Values{b.compare(a[0], end, Compare::kLt)}; },
      [&](std::span<const Value> a) {
        Values next{b.add(a[0], b.constant_int(DType::kS32, 1))};
        const Values state = body(a[0], a.subspan(1));
        next.insert(next.end(), state.begin(), state.end());
        return next;
      });
  return {result.begin() + 1, result.end()};
}

inline Values for_loop(Lowering& b, int64_t count, const Values& init,
                       const std::function<Values(Value i, std::span<const Value> state)>& body) {
  return for_loop(b, b.constant_int(DType::kS32, 0), b.constant_int(DType::kS32, count), init,
                  body);
}

}  // namespace torch_tpu::lowering
