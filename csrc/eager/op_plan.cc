#include "eager/op_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace torch_tpu::eager {
namespace {

// Operators whose running statistics are written although the schema doesn't say so; the rule gives
// the new values after the results. Collected from PyTorch's native_functions.yaml.
const std::set<std::string_view>& hidden_mutations() {
  static const std::set<std::string_view> names = {"native_batch_norm", "batch_norm_update_stats",
                                                   "batch_norm_gather_stats",
                                                   "batch_norm_gather_stats_with_counts"};
  return names;
}

// In-place operators whose result doesn't depend on the old value.
const std::set<std::string_view>& fillers() {
  static const std::set<std::string_view> names = {
      "copy_",      "fill_",        "zero_",   "normal_",     "uniform_",  "random_",
      "bernoulli_", "exponential_", "cauchy_", "log_normal_", "geometric_"};
  return names;
}

// Operators whose results are dense, and typed and checked by their rules: the meta kernel, a
// Python function that imports SymPy (a second), has nothing to add.
const std::set<std::string_view>& typed_by_rule() {
  static const std::set<std::string_view> names = {"aten::native_layer_norm",
                                                   "aten::native_layer_norm_backward"};
  return names;
}

// In-place operators whose functional form is not the name without the underscore.
std::string_view functional_name(std::string_view name) {
  if (name == "aten::normal_") return "aten::normal_functional";
  return {};
}

ArgKind kind_of(const c10::Argument& argument, lowering::ScalarForm form) {
  const c10::Type* type = argument.real_type().get();
  c10::TypePtr inner = argument.real_type();
  if (auto optional = inner->cast<c10::OptionalType>()) inner = optional->getElementType();
  type = inner.get();
  const bool operand = form == lowering::ScalarForm::kOperand;
  switch (type->kind()) {
    case c10::TypeKind::TensorType:
      return ArgKind::kTensor;
    case c10::TypeKind::GeneratorType:
      return ArgKind::kGenerator;
    case c10::TypeKind::ScalarTypeType:
      return ArgKind::kDType;
    case c10::TypeKind::LayoutType:
    case c10::TypeKind::MemoryFormatType:
      return ArgKind::kIgnored;
    case c10::TypeKind::DeviceObjType:
      return ArgKind::kDevice;
    case c10::TypeKind::StringType:
      return ArgKind::kString;
    case c10::TypeKind::NumberType:
    case c10::TypeKind::FloatType:
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType:
    case c10::TypeKind::SymFloatType:
    case c10::TypeKind::SymBoolType:
    case c10::TypeKind::ComplexType:
      return operand ? ArgKind::kOperand : ArgKind::kNumber;
    case c10::TypeKind::BoolType:
      return argument.name() == "pin_memory" ? ArgKind::kIgnored : ArgKind::kNumber;
    case c10::TypeKind::ListType: {
      const c10::TypePtr element = inner->castRaw<c10::ListType>()->getElementType();
      switch (element->kind()) {
        case c10::TypeKind::TensorType:
          return ArgKind::kTensorList;
        case c10::TypeKind::OptionalType:
          return ArgKind::kOptionalTensorList;
        case c10::TypeKind::FloatType:
          return ArgKind::kDoubleList;
        case c10::TypeKind::NumberType:
          return operand ? ArgKind::kOperandList : ArgKind::kScalarList;
        default:
          return ArgKind::kIntList;
      }
    }
    default:
      return ArgKind::kIgnored;
  }
}

bool is_write(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_tensor_option(std::string_view name) {
  return name == "dtype" || name == "layout" || name == "device" || name == "pin_memory" ||
         name == "memory_format";
}

const std::multimap<std::string, c10::OperatorName>& overloads() {
  static const auto* map = [] {
    auto* m = new std::multimap<std::string, c10::OperatorName>();
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames())
      m->emplace(name.name, name);
    return m;
  }();
  return *map;
}

bool same_type(const c10::Argument& a, const c10::Argument& b) {
  return *a.real_type() == *b.real_type();
}

}  // namespace

std::string table_name(const c10::OperatorName& name) {
  const size_t colon = name.name.find("::");
  std::string out = colon == std::string::npos ? name.name : name.name.substr(colon + 2);
  if (!name.overload_name.empty()) out += "." + name.overload_name;
  return out;
}

std::optional<c10::OperatorHandle> find_functional(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  bool mutates = false;
  for (const auto& a : schema.arguments()) mutates |= is_write(a);
  if (!mutates) return std::nullopt;
  std::string base = schema.name();
  if (const std::string_view special = functional_name(base); !special.empty()) {
    base = special;
  } else if (base.size() > 1 && base.back() == '_' && !base.ends_with("__")) {
    base.pop_back();
  }
  const auto [begin, end] = overloads().equal_range(base);
  for (auto it = begin; it != end; ++it) {
    auto candidate = c10::Dispatcher::singleton().findSchema(it->second);
    if (!candidate) continue;
    const c10::FunctionSchema& other = candidate->schema();
    bool fits = true;
    for (const auto& a : other.arguments()) fits &= !is_write(a);
    size_t matched = 0;
    for (const auto& a : schema.arguments()) {
      if (is_write(a) && a.is_out()) continue;
      const auto index = other.argumentIndexWithName(a.name());
      if (!index || !same_type(a, other.arguments()[static_cast<size_t>(*index)])) {
        fits = false;
        break;
      }
      ++matched;
    }
    if (!fits) continue;
    for (const auto& a : other.arguments()) {
      if (!schema.argumentIndexWithName(a.name()) && !is_tensor_option(a.name())) fits = false;
    }
    if (fits && matched > 0) return candidate;
  }
  return std::nullopt;
}

OpPlan::OpPlan(const c10::OperatorHandle& handle)
    : op(handle), name(c10::toString(handle.operator_name())) {
  const auto& table = lowering::operator_table();
  const c10::FunctionSchema& schema = op.schema();
  functional = find_functional(op);
  rule = table.find(table_name(op.operator_name()));
  const c10::FunctionSchema* rule_schema = &schema;
  if (rule == nullptr && functional) {
    rule = table.find(table_name(functional->operator_name()));
    rule_schema = &functional->schema();
  }
  has_meta = rule == nullptr || !typed_by_rule().contains(name);
  num_rule_args = rule_schema->arguments().size();
  const std::string short_name = table_name({schema.name(), ""});
  const bool hidden = hidden_mutations().contains(short_name);
  for (const auto& argument : schema.arguments()) {
    ArgPlan plan;
    const auto index = rule_schema->argumentIndexWithName(argument.name());
    plan.mutated = is_write(argument);
    plan.is_out = plan.mutated && argument.is_out();
    plan.overwritten = plan.is_out || (plan.mutated && fillers().contains(short_name));
    plan.rule_index = index && !plan.is_out ? *index : -1;
    auto form = lowering::ScalarForm::kConstant;
    if (rule != nullptr && plan.rule_index >= 0 &&
        static_cast<size_t>(plan.rule_index) < rule->scalar_forms.size()) {
      form = rule->scalar_forms[static_cast<size_t>(plan.rule_index)];
    }
    plan.kind = kind_of(argument, form);
    plan.is_factor = argument.name() == "alpha" || argument.name() == "beta";
    if (hidden && (argument.name() == "running_mean" || argument.name() == "running_var")) {
      plan.mutated = plan.hidden_mutation = true;
    }
    if (plan.kind == ArgKind::kDevice) device_argument = static_cast<int>(args.size());
    has_index_list |= plan.kind == ArgKind::kOptionalTensorList;
    mutates |= plan.mutated;
    mutates_list |= plan.mutated && plan.kind == ArgKind::kTensorList;
    is_out_variant |= plan.is_out;
    args.push_back(plan);
  }
  key_aliases = mutates || rule == nullptr;
  pure_inplace = mutates;
  for (const auto& result : schema.returns()) {
    int alias = -1;
    if (result.alias_info() != nullptr && result.alias_info()->isWrite()) {
      for (size_t i = 0; i < schema.arguments().size(); ++i) {
        const auto& argument = schema.arguments()[i];
        if (is_write(argument) &&
            argument.alias_info()->beforeSets() == result.alias_info()->beforeSets()) {
          alias = static_cast<int>(i);
        }
      }
    }
    pure_inplace &= alias >= 0;
    return_alias.push_back(alias);
  }
}

}  // namespace torch_tpu::eager
