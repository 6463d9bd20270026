#pragma once

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// The words rng_bit_generator's Philox gives at `state` ({seed, offset}, uint64[2]), in 32-bit
// arithmetic: uint32[4 * blocks], first the first words of all blocks, then the second ones, and so
// on. On a TPU, which has no 64-bit integers, it compiles in a sixth of the time and moves less
// than a tenth of the memory.
Value philox_words(Lowering& b, Value state, int64_t blocks);

}  // namespace torch_tpu::lowering
