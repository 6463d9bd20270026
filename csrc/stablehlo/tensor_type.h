#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stablehlo/dtype.h"

namespace torch_tpu {

using Shape = std::vector<int64_t>;

// Number of elements; 1 for a scalar.
inline int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  return n;
}

// A ranked tensor with static dimensions.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t numel() const { return torch_tpu::numel(shape); }
  bool operator==(const TensorType&) const = default;
};

// "tensor<2x3xf32>"
std::string to_string(const TensorType& type);
void append(std::string& out, const TensorType& type);
// "[2, 3]"
std::string to_string(const Shape& shape);

}  // namespace torch_tpu
