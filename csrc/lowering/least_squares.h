#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// linalg_lstsq(self [..., m, n], b [..., m, k] or [..., m]) -> solution, residuals, rank, singular
// values, with the shapes PyTorch gives on the CPU. Drivers "gelsy" (the default) and "gels"; whether
// the others return residuals depends on the rank, hence NotImplemented.
std::tuple<Value, Value, Value, Value> least_squares(Lowering& b, Value a, Value rhs, std::optional<double> rcond,
                                                     std::optional<std::string> driver);

}  // namespace torch_tpu::lowering
