#include "stablehlo/tensor_type.h"

namespace torch_tpu {

void append(std::string& out, const TensorType& type) {
  out += "tensor<";
  for (int64_t d : type.shape) {
    out += std::to_string(d);
    out += 'x';
  }
  out += mlir_name(type.dtype);
  out += '>';
}

std::string to_string(const TensorType& type) {
  std::string out;
  append(out, type);
  return out;
}

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

}  // namespace torch_tpu
