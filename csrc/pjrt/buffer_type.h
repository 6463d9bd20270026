#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// "f32", "bf16", "pred", "c64": XLA's names; "unknown" for types newer than this list.
std::string_view buffer_type_name(PJRT_Buffer_Type type);

// Bits of one element: 8 for pred, 4 for s4; 0 for token, invalid and unknown types.
int bits_per_element(PJRT_Buffer_Type type);

// Bytes of a dense array on the host, where elements below a byte take a byte each.
int64_t dense_host_bytes(PJRT_Buffer_Type type, std::span<const int64_t> dims);

}  // namespace torch_tpu::pjrt
