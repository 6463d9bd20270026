#include "eager/data_dependent.h"

#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/linalg_cholesky_ex.h>
#include <ATen/ops/repeat_interleave.h>

#include "eager/kernel.h"
#include "eager/storage.h"
#include "eager/trace.h"

namespace torch_tpu::eager {
namespace {

c10::OperatorHandle find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

template <typename... A>
std::vector<at::Tensor> results(Kernel& kernel, const c10::OperatorHandle& op, A&&... args) {
  return translated([&] {
    torch::jit::Stack stack;
    (stack.emplace_back(std::forward<A>(args)), ...);
    return kernel.rule_results(op, std::move(stack));
  });
}

// The first `count` rows of a padded result, as a tensor with a storage of its own.
at::Tensor first_rows(const at::Tensor& padded, int64_t count) {
  if (padded.size(0) == count) return padded;
  return padded.narrow(0, 0, count).clone();
}

at::Tensor tpu_nonzero(const at::Tensor& self) {
  static const c10::OperatorHandle op = find("aten::nonzero", "");
  static Kernel kernel;
  const auto r = results(kernel, op, self);
  const int64_t count = r[1].item<int64_t>();
  // Column-major, as PyTorch's kernels leave it.
  at::Tensor rows = r[0].narrow(0, 0, count);
  at::Tensor out =
      at::empty_strided(rows.sizes(), {1, std::max<int64_t>(count, 1)}, rows.options());
  return out.copy_(rows);
}

at::Tensor tpu_masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "masked_select: expected BoolTensor for mask");
  static const c10::OperatorHandle op = find("aten::masked_select", "");
  static Kernel kernel;
  const auto r = results(kernel, op, self, mask);
  return first_rows(r[0], r[1].item<int64_t>());
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  TORCH_CHECK(out.scalar_type() == at::kLong, "Expected out tensor to have dtype Long but got ",
              out.scalar_type());
  const at::Tensor r = tpu_nonzero(self);
  out.resize_(r.sizes());
  return out.copy_(r);
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == self.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  at::assert_no_internal_overlap(out);
  at::assert_no_overlap(out, self);
  at::assert_no_overlap(out, mask);
  const at::Tensor r = tpu_masked_select(self, mask);
  out.resize_(r.sizes());
  return out.copy_(r);
}

// Rules give: unique values padded, inverse, counts padded, number of them.
std::tuple<at::Tensor, at::Tensor, at::Tensor> cut(const std::vector<at::Tensor>& r, int64_t dim,
                                                   bool inverse, bool counts) {
  const int64_t n = r[3].item<int64_t>();
  const at::Tensor none = at::empty_strided({0}, {1}, r[1].options());
  return {r[0].narrow(dim, 0, n).clone(at::MemoryFormat::Contiguous), inverse ? r[1] : none,
          counts ? first_rows(r[2], n) : none};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique2(const at::Tensor& self, bool sorted,
                                                       bool inverse, bool counts) {
  static const c10::OperatorHandle op = find("aten::_unique2", "");
  static Kernel kernel;
  return cut(results(kernel, op, self, sorted, inverse, counts), 0, inverse, counts);
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool sorted, bool inverse) {
  auto r = unique2(self, sorted, inverse, false);
  return {std::get<0>(r), std::get<1>(r)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim(const at::Tensor& self, int64_t dim,
                                                          bool sorted, bool inverse, bool counts) {
  static const c10::OperatorHandle op = find("aten::unique_dim", "");
  static Kernel kernel;
  const int64_t d = at::maybe_wrap_dim(dim, self.dim());
  return cut(results(kernel, op, self, d, sorted, inverse, counts), d, inverse, counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> tpu_unique_consecutive(const at::Tensor& self,
                                                                      bool inverse, bool counts,
                                                                      std::optional<int64_t> dim) {
  static const c10::OperatorHandle op = find("aten::unique_consecutive", "");
  static Kernel kernel;
  const auto d = dim ? std::optional(at::maybe_wrap_dim(*dim, self.dim())) : dim;
  return cut(results(kernel, op, self, inverse, counts, d), d.value_or(0), inverse, counts);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> unique_dim_consecutive(const at::Tensor& self,
                                                                      int64_t dim, bool inverse,
                                                                      bool counts) {
  return tpu_unique_consecutive(self, inverse, counts, dim);
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<c10::SymInt> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.numel() == 0) return at::empty_strided({0}, {1}, repeats.options());
  const int64_t total =
      output_size ? output_size->guard_int(__FILE__, __LINE__) : repeats.sum().item<int64_t>();
  TORCH_CHECK(output_size || (repeats >= 0).all().item<bool>(), "repeats can not be negative");
  static const c10::OperatorHandle op = find("aten::repeat_interleave", "Tensor");
  static Kernel kernel;
  return results(kernel, op, repeats, total)[0];
}

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights,
                    c10::SymInt minlength) {
  const int64_t least = minlength.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(least >= 0, "minlength should be >= 0");
  TORCH_CHECK(self.dim() == 1 && c10::isIntegralType(self.scalar_type(), false),
              "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights.has_value() && weights->defined();
  TORCH_CHECK(!weighted || weights->sizes() == self.sizes(),
              "weights should be 1-d and have the same length as input");
  int64_t bins = least;
  if (self.numel() > 0) {
    const auto [low, high] = at::aminmax(self);
    TORCH_CHECK(low.item().toLong() >= 0,
                "bincount only supports 1-d non-negative integral inputs.");
    bins = std::max(bins, high.item().toLong() + 1);
  }
  static const c10::OperatorHandle op = find("aten::bincount", "");
  static Kernel kernel;
  return results(kernel, op, self, weighted ? c10::IValue(*weights) : c10::IValue(), bins)[0];
}

// The old name of linalg.cholesky, which waits to see whether there is a factor.
at::Tensor tpu_cholesky(const at::Tensor& self, bool upper) {
  const auto [factor, info] = at::linalg_cholesky_ex(self, upper, /*check_errors=*/false);
  at::_linalg_check_errors(info, "cholesky", self.dim() == 2);
  return factor;
}

}  // namespace

void register_data_dependent(torch::Library& m) {
  m.impl("nonzero", tpu_nonzero);
  m.impl("nonzero.out", nonzero_out);
  m.impl("masked_select", tpu_masked_select);
  m.impl("masked_select.out", masked_select_out);
  m.impl("_unique2", unique2);
  m.impl("_unique", unique);
  m.impl("unique_dim", unique_dim);
  m.impl("unique_dim_consecutive", unique_dim_consecutive);
  m.impl("unique_consecutive", tpu_unique_consecutive);
  m.impl("repeat_interleave.Tensor", repeat_interleave);
  m.impl("bincount", bincount);
  m.impl("cholesky", tpu_cholesky);
}

}  // namespace torch_tpu::eager
