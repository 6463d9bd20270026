// Which kernel scaled_dot_product_attention uses on the device.
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/native/transformers/attention.h>

namespace torch_tpu::eager {
namespace {

// Whether the fused rule takes these arguments; PyTorch's composite takes the rest.
bool fused(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
           double dropout) {
  if (query.dim() != 4 || key.dim() != 4 || value.dim() != 4) return false;
  if (query.is_nested() || key.is_nested() || value.is_nested()) return false;
  if (key.size(1) != value.size(1) || key.size(1) == 0 || query.size(1) % key.size(1) != 0)
    return false;
  if (!at::isFloatingType(query.scalar_type()) || query.scalar_type() != key.scalar_type() ||
      query.scalar_type() != value.scalar_type()) {
    return false;
  }
  if (dropout < 0.0 || dropout > 1.0 || query.numel() == 0 || key.numel() == 0 ||
      value.numel() == 0)
    return false;
  return true;
}

int64_t choose(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>&, double dropout, bool, std::optional<double>,
               bool) {
  const auto& context = at::globalContext();
  if (context.userEnabledOverrideableSDP() && fused(query, key, value, dropout)) {
    return static_cast<int64_t>(at::SDPBackend::overrideable);
  }
  if (context.userEnabledMathSDP()) return static_cast<int64_t>(at::SDPBackend::math);
  return static_cast<int64_t>(at::SDPBackend::error);
}

}  // namespace
}  // namespace torch_tpu::eager

namespace at::native {

REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &torch_tpu::eager::choose)

}  // namespace at::native
