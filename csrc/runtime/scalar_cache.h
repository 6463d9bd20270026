#pragma once

#include <complex>
#include <cstdint>

#include "runtime/runtime.h"

namespace torch_tpu::runtime {

// A Python number as the bits of a 0-d buffer.
struct ScalarBits {
  DType dtype;
  uint64_t low = 0;
  uint64_t high = 0;  // imaginary part of complex128
  bool operator==(const ScalarBits&) const = default;
};

ScalarBits scalar_bits(DType dtype, std::complex<double> value);
ScalarBits scalar_bits(DType dtype, int64_t value);

// 0-d buffers of recently used numbers; bounded, thread-safe.
BufferRef scalar_buffer(const ScalarBits& bits, Device& device);

}  // namespace torch_tpu::runtime
