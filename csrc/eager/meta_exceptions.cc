#include "eager/meta_exceptions.h"

#include <c10/core/MemoryFormat.h>

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "eager/scalar_type.h"

namespace torch_tpu::eager {
namespace {

// Which argument's memory format the first result takes.
enum class Follows : uint8_t { kAnyOperand, kFirst };

const std::map<std::string_view, Follows>& memory_formats() {
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

void apply_memory_format(const Call& call, std::vector<TensorSpec>& results) {
  const auto it = memory_formats().find(call.plan->name);
  if (it == memory_formats().end() || results.empty() || call.tensors.empty()) return;
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

// Where a normalisation saves its statistics, and when they are of a batch. The meta kernels speak
// for CUDA there.
struct Statistics {
  size_t first = 1, last = 1;
  enum class OfBatch : uint8_t { kAlways, kInTraining, kNever } of_batch = OfBatch::kAlways;
};

const std::map<std::string_view, Statistics>& statistics() {
  using enum Statistics::OfBatch;
  static const std::map<std::string_view, Statistics> table = {
      {"aten::native_layer_norm", {1, 2}},
      {"aten::native_group_norm", {1, 2}},
      {"aten::native_batch_norm", {1, 2, kInTraining}},
      {"aten::_native_batch_norm_legit", {1, 2, kInTraining}},
      {"aten::_native_batch_norm_legit.no_stats", {1, 2, kInTraining}},
      {"aten::_native_batch_norm_legit_functional", {1, 2, kInTraining}},
      {"aten::_native_batch_norm_legit_no_training", {1, 2, kNever}},
      {"aten::_batch_norm_with_update", {1, 2}},
      {"aten::_batch_norm_with_update_functional", {1, 2}},
      {"aten::_batch_norm_no_update", {1, 2, kNever}},
      {"aten::batch_norm_update_stats", {0, 1}},
  };
  return table;
}

bool in_training(const Call& call) {
  for (const char* name : {"training", "train"}) {
    if (const auto i = call.plan->op.schema().argumentIndexWithName(name))
      return call.args[*i].toBool();
  }
  return true;
}

// Statistics have the input's type, and float32 beside float32 parameters; there are none of a
// batch that was not looked at.
void apply_statistics(const Call& call, std::vector<TensorSpec>& results) {
  const auto it = statistics().find(call.plan->name);
  if (it == statistics().end() || call.tensors.empty()) return;
  const Statistics& s = it->second;
  c10::ScalarType type = call.tensors[0].tensor->scalar_type();
  const bool mixed = std::any_of(call.tensors.begin() + 1, call.tensors.end(), [](const auto& t) {
    return t.tensor->scalar_type() == c10::ScalarType::Float;
  });
  if (mixed && c10::isReducedFloatingType(type)) type = c10::ScalarType::Float;
  const bool empty = s.of_batch == Statistics::OfBatch::kNever ||
                     (s.of_batch == Statistics::OfBatch::kInTraining && !in_training(call));
  for (size_t i = s.first; i <= s.last && i < results.size(); ++i) {
    if (!results[i].defined) continue;
    results[i] =
        TensorSpec::contiguous({dtype_of(type), empty ? Shape{0} : Shape(results[i].sizes)});
  }
  // A functional form gives new running statistics last.
  if (!call.plan->name.ends_with("_functional") || results.size() < 2) return;
  for (const auto& t : call.tensors) {
    const std::string& argument =
        call.plan->op.schema().arguments()[static_cast<size_t>(t.arg)].name();
    if (argument != "running_mean" && argument != "running_var") continue;
    TensorSpec& spec = results[results.size() - (argument == "running_mean" ? 2 : 1)];
    spec = TensorSpec::contiguous({dtype_of(t.tensor->scalar_type()), spec.sizes});
  }
}

// Statistics that processes exchange (SyncBatchNorm) stay in float32, as they do on CUDA.
bool keeps_opmath(std::string_view name) {
  static const std::set<std::string_view> names = {
      "aten::batch_norm_stats", "aten::batch_norm_gather_stats",
      "aten::batch_norm_gather_stats_with_counts", "aten::batch_norm_backward_reduce"};
  return names.contains(name);
}

}  // namespace

void apply_meta_exceptions(const Call& call, std::vector<TensorSpec>& results) {
  apply_memory_format(call, results);
  apply_statistics(call, results);
}

TensorSpec without_meta(const Call& call, const TensorType& type) {
  if (!call.plan->rule->options.opmath || call.tensors.empty() || keeps_opmath(call.plan->name))
    return TensorSpec::contiguous(type);
  const DType operand = dtype_of(call.tensors[0].tensor->scalar_type());
  const bool widened = opmath(operand) != operand && opmath(operand) == type.dtype;
  return TensorSpec::contiguous(widened ? TensorType{operand, type.shape} : type);
}

}  // namespace torch_tpu::eager
