#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "lowering/lowering.h"

namespace torch_tpu::lowering {

// linalg_lstsq(self [..., m, n], b [..., m, k] or [..., m]) -> solution, residuals, rank, singular
// values, with the shapes PyTorch gives on the CPU, but for one: "gelsd" and "gelss" return
// residuals of more rows than columns whatever the rank, which the host doesn't know yet (PyTorch:
// only at full rank).
std::tuple<Value, Value, Value, Value> least_squares(Lowering& b, Value a, Value rhs,
                                                     std::optional<double> rcond,
                                                     std::optional<std::string> driver);

}  // namespace torch_tpu::lowering
