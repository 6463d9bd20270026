#include "eager/stride_exceptions.h"

#include <c10/core/MemoryFormat.h>

#include <map>
#include <string_view>

namespace torch_tpu::eager {
namespace {

// Which argument's memory format the first result takes.
enum class Follows : uint8_t { kAnyOperand, kFirst };

const std::map<std::string_view, Follows>& exceptions() {
  static const std::map<std::string_view, Follows> table = {
      {"aten::convolution", Follows::kAnyOperand},
      {"aten::convolution_overrideable", Follows::kAnyOperand},
      {"aten::reflection_pad2d", Follows::kFirst},
      {"aten::replication_pad2d", Follows::kFirst},
      {"aten::reflection_pad3d", Follows::kFirst},
      {"aten::replication_pad3d", Follows::kFirst},
      {"aten::pixel_shuffle", Follows::kFirst},
      {"aten::roll", Follows::kFirst},
  };
  return table;
}

// Channels-last of four or five dimensions, or nothing.
std::optional<c10::MemoryFormat> channels_last(const at::Tensor& t) {
  const c10::MemoryFormat format = t.suggest_memory_format();
  if (format == c10::MemoryFormat::Contiguous) return std::nullopt;
  return format;
}

}  // namespace

void apply_stride_exceptions(const Call& call, std::vector<TensorSpec>& results) {
  const auto it = exceptions().find(call.plan->name);
  if (it == exceptions().end() || results.empty() || call.tensors.empty()) return;
  std::optional<c10::MemoryFormat> format = channels_last(*call.tensors[0].tensor);
  if (!format && it->second == Follows::kAnyOperand && call.tensors.size() > 1) {
    format = channels_last(*call.tensors[1].tensor);
  }
  TensorSpec& out = results[0];
  if (!format || !out.defined) return;
  if (out.sizes.size() == 4 && *format == c10::MemoryFormat::ChannelsLast) {
    out.strides = c10::get_channels_last_strides_2d(out.sizes);
  } else if (out.sizes.size() == 5 && *format == c10::MemoryFormat::ChannelsLast3d) {
    out.strides = c10::get_channels_last_strides_3d(out.sizes);
  }
}

}  // namespace torch_tpu::eager
