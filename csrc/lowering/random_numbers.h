#pragma once

#include <functional>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// Uniform and normal numbers made of Philox words. A source draws from the program's generator, or,
// inside of a loop that rejects, from a state given with it.
class RandomSource {
 public:
  explicit RandomSource(Lowering& b) : b(b) {}
  RandomSource(Lowering& b, Value state) : b(b), state_(state) {}

  Value words(const Shape& shape);    // uint32
  Value words64(const Shape& shape);  // uint64
  // Multiples of 2^-m in [0, 1), m the bits of the mantissa of `dtype` (24 for float32), as
  // PyTorch's; the result has the opmath type of `dtype`.
  Value uniform(DType dtype, const Shape& shape);
  // (0, 1], fine near zero: multiples of 2^-32 (2^-53 for float64) there. Type opmath(dtype).
  Value uniform_positive(DType dtype, const Shape& shape);
  // Standard normal by Box and Muller: two words (four for float64) make two numbers. Complex
  // numbers have independent parts of variance 1/2.
  Value normal(DType dtype, const Shape& shape);
  // -log(uniform_positive), never zero.
  Value exponential(DType dtype, const Shape& shape);

 private:
  Lowering& b;
  Value state_;
};

// Draws a value for each element by a rejection method. `attempt` gives a proposal and whether it
// is accepted; it draws at most `words` words per element from the source it is given. Elements
// still rejected after 256 rounds keep their last proposal.
struct Proposal {
  Value value, accepted;
};
Value sample_by_rejection(Lowering& b, const TensorType& type, int64_t words,
                          const std::function<Proposal(RandomSource&)>& attempt);

}  // namespace torch_tpu::lowering
