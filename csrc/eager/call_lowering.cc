#include "eager/call_lowering.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/List.h>
#include <ATen/native/Resize.h>
#include <c10/core/DefaultDtype.h>

#include "eager/meta_call.h"
#include "eager/meta_exceptions.h"
#include "eager/scalar_type.h"
#include "eager/settings.h"
#include "lowering/promotion.h"

namespace torch_tpu::eager {
namespace {

using lowering::Argument;
using lowering::Arguments;
using lowering::Operand;
using lowering::Promotion;
using lowering::PromotionOperand;
using lowering::Scalar;
using lowering::Value;

Scalar to_scalar(const c10::Scalar& s) {
  if (s.isComplex()) return Scalar::of(std::complex<double>(s.toComplexDouble()));
  if (s.isFloatingPoint()) return Scalar::of(s.toDouble());
  if (s.isBoolean()) return Scalar::of(s.toBool());
  return Scalar::of(s.toLong());
}

DType number_dtype(const Scalar& s, bool wide) {
  switch (s.kind) {
    case Scalar::Kind::kBool:
      return DType::kPred;
    case Scalar::Kind::kInt:
      return DType::kS64;
    case Scalar::Kind::kDouble:
      return wide ? DType::kF64 : DType::kF32;
    case Scalar::Kind::kComplex:
      return wide ? DType::kC128 : DType::kC64;
  }
  return DType::kF32;
}

// The type of a number for promotion: a Python float is double, wrapped.
DType category_dtype(const Scalar& s) {
  return s.kind == Scalar::Kind::kDouble    ? DType::kF64
         : s.kind == Scalar::Kind::kComplex ? DType::kC128
                                            : number_dtype(s, true);
}

void check_overlap(const Call& call) {
  if (!call.plan->mutates) return;
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const TensorArgument& a = call.tensors[i];
    if (!a.mutated) continue;
    at::assert_no_internal_overlap(*a.tensor);
    for (size_t j = 0; j < call.tensors.size(); ++j) {
      const TensorArgument& b = call.tensors[j];
      if (i == j || a.cell != b.cell) continue;
      // In place through a list, each tensor is its own input; elsewhere inputs may be the output
      // itself.
      at::assert_no_partial_overlap(*a.tensor, *b.tensor);
    }
  }
}

// The converted arguments of a rule.
class ArgumentBuilder {
 public:
  ArgumentBuilder(const Call& call, CallContext& context) : call_(call), context_(context) {
    for (const TensorArgument& t : call.tensors) {
      const auto type = t.tensor->scalar_type();
      wide_ |= type == c10::ScalarType::Double || type == c10::ScalarType::ComplexDouble;
    }
    if (c10::get_default_dtype_as_scalartype() == c10::ScalarType::Double) wide_ = true;
  }

  Arguments build() {
    const OpPlan& plan = *call_.plan;
    Arguments out(plan.num_rule_args);
    for (size_t i = 0; i < plan.args.size(); ++i) {
      const int at = plan.args[i].rule_index;
      if (at < 0) {
        skip(plan.args[i], call_.args[i]);
        continue;
      }
      out[static_cast<size_t>(at)] = convert(plan.args[i], call_.args[i]);
    }
    promote(out);
    return out;
  }

 private:
  lowering::StorageProgram& program() { return context_.program(); }

  Value next_tensor(const at::Tensor& t) {
    if (!t.is_privateuseone()) return next_zero_dim();
    const size_t index = tensor_++;
    const auto rank = t.unsafeGetTensorImpl()->is_wrapped_number()
                          ? PromotionOperand::Rank::kWrapped
                      : t.dim() == 0 ? PromotionOperand::Rank::kZeroDim
                                     : PromotionOperand::Rank::kDimensioned;
    operands_.push_back({dtype_of(t.scalar_type()), rank});
    return program().read(context_.storage(call_, index), view_of(t));
  }

  // A 0-d CPU tensor.
  Value next_zero_dim() {
    const size_t index = operand_++;
    const OperandArgument& o = call_.operands[index];
    const DType own = dtype_of(o.dtype);
    operands_.push_back(
        {own, o.wrapped ? PromotionOperand::Rank::kWrapped : PromotionOperand::Rank::kZeroDim});
    DType dtype = is_half(own) || is_float8(own) ? DType::kF32 : own;
    if (o.wrapped) dtype = number_dtype(to_scalar(o.value), wide_);
    const DType result = o.wrapped ? dtype : own;
    if (auto v = context_.operand(call_, index, dtype))
      return program().builder().convert(*v, result);
    return program().builder().scalar(result, to_scalar(o.value));
  }

  Operand next_operand(bool promotes = true) {
    const size_t index = operand_++;
    const Scalar s = to_scalar(call_.operands[index].value);
    if (promotes) operands_.push_back({category_dtype(s), PromotionOperand::Rank::kWrapped});
    if (auto v = context_.operand(call_, index, number_dtype(s, wide_))) return Operand(*v, s.kind);
    return Operand(s);
  }

  void skip(const ArgPlan& plan, const c10::IValue& v) {
    auto count = [this](const c10::IValue& item) {
      if (item.isTensor() && item.toTensor().defined()) ++tensor_;
    };
    if (plan.kind == ArgKind::kTensor) count(v);
    if (plan.kind == ArgKind::kTensorList && !v.isNone()) {
      for (const c10::IValue& item : v.toListRef()) count(item);
    }
  }

  Argument convert(const ArgPlan& plan, const c10::IValue& v) {
    if (v.isNone()) return std::monostate();
    switch (plan.kind) {
      case ArgKind::kTensor:
        if (!v.toTensor().defined()) return std::monostate();
        return next_tensor(v.toTensor());
      case ArgKind::kTensorList: {
        lowering::Values out;
        for (const c10::IValue& item : v.toListRef()) out.push_back(next_tensor(item.toTensor()));
        return out;
      }
      case ArgKind::kOptionalTensorList: {
        std::vector<std::optional<Value>> out;
        for (const c10::IValue& item : v.toListRef()) {
          if (item.isTensor() && item.toTensor().defined()) {
            out.emplace_back(next_tensor(item.toTensor()));
          } else {
            out.emplace_back();
          }
        }
        return out;
      }
      case ArgKind::kNumber: {
        const Scalar s = to_scalar(v.toScalar());
        if (is_scalar_argument(plan)) {
          operands_.push_back({category_dtype(s), PromotionOperand::Rank::kWrapped});
        }
        return s;
      }
      case ArgKind::kOperand:
        if (is_unit_factor(plan, v)) return Operand(to_scalar(v.toScalar()));
        return next_operand(!plan.is_factor);
      case ArgKind::kOperandList: {
        std::vector<Operand> out;
        for (size_t k = v.toListRef().size(); k > 0; --k) out.push_back(next_operand());
        return out;
      }
      case ArgKind::kIntList: {
        lowering::IntList out;
        if (v.isInt()) return lowering::IntList{v.toInt()};
        for (const c10::IValue& item : v.toListRef()) {
          out.push_back(item.isInt()    ? item.toInt()
                        : item.isBool() ? item.toBool()
                                        : item.toSymInt().guard_int(__FILE__, __LINE__));
        }
        return out;
      }
      case ArgKind::kDoubleList: {
        std::vector<double> out;
        for (const c10::IValue& item : v.toListRef()) out.push_back(item.toDouble());
        return out;
      }
      case ArgKind::kScalarList: {
        std::vector<Operand> out;
        for (const c10::IValue& item : v.toListRef()) out.emplace_back(to_scalar(item.toScalar()));
        return out;
      }
      case ArgKind::kString:
        return std::string(v.toStringView());
      case ArgKind::kDType:
        return dtype_of(v.toScalarType());
      default:
        return std::monostate();
    }
  }

  // A `Scalar` (not a bool, int or float) of the schema takes part in promotion even as a constant.
  bool is_scalar_argument(const ArgPlan& plan) const {
    const auto index = static_cast<size_t>(&plan - call_.plan->args.data());
    c10::TypePtr type = call_.plan->op.schema().arguments()[index].real_type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->kind() == c10::TypeKind::NumberType;
  }

  void promote(Arguments& arguments) {
    const lowering::RuleOptions& options = call_.plan->rule->options;
    lowering::Lowering& b = program().builder();
    std::optional<DType> target;
    const DType default_float = dtype_of(c10::get_default_dtype_as_scalartype());
    switch (options.promotion) {
      case Promotion::kNone:
        break;
      case Promotion::kResult:
      case Promotion::kFloat:
        if (!operands_.empty()) target = lowering::result_type(operands_, default_float);
        if (target && options.promotion == Promotion::kFloat && is_integral(*target))
          target = default_float;
        break;
      case Promotion::kOutput:
        if (b.num_outputs() > 0) target = b.out().dtype;
        break;
    }
    auto cast = [&](Value v) {
      DType to = target.value_or(v.dtype());
      if (options.opmath) to = opmath(to);
      return b.convert(v, to);
    };
    if (!target && !options.opmath) return;
    for (Argument& a : arguments) {
      if (auto* v = std::get_if<Value>(&a)) {
        *v = cast(*v);
      } else if (auto* list = std::get_if<lowering::Values>(&a)) {
        for (Value& x : *list) x = cast(x);
      } else if (auto* optional = std::get_if<std::vector<std::optional<Value>>>(&a)) {
        for (auto& x : *optional) {
          if (x) x = cast(*x);
        }
      }
    }
  }

  const Call& call_;
  CallContext& context_;
  size_t tensor_ = 0;
  size_t operand_ = 0;
  bool wide_ = false;
  std::vector<PromotionOperand> operands_;
};

// The new tensors among the meta kernel's returns, and how they fill the returns.
void describe_returns(const OpPlan& plan, const std::vector<c10::IValue>& values,
                      LoweredCall& out) {
  for (size_t i = 0; i < plan.return_alias.size(); ++i) {
    Entry::Return r;
    r.first = static_cast<uint32_t>(out.results.size());
    if (plan.return_alias[i] >= 0) {
      r.alias = plan.return_alias[i];
    } else if (values[i].isTensor()) {
      out.results.push_back(TensorSpec::of(values[i].toTensor()));
    } else if (values[i].isTensorList()) {
      r.is_list = true;
      r.count = 0;
      for (const at::Tensor& t : values[i].toTensorVector()) {
        out.results.push_back(TensorSpec::of(t));
        ++r.count;
      }
    } else {
      r.is_constant = true;
      r.constant = values[i];
    }
    out.returns.push_back(std::move(r));
  }
}

}  // namespace

LoweredCall lower_call(const Call& call, CallContext& context) {
  const OpPlan& plan = *call.plan;
  LoweredCall out;
  const auto meta = meta_call(plan, call.args);
  if (plan.is_out_variant) {
    TORCH_CHECK_NOT_IMPLEMENTED(meta.has_value(), plan.name, " has no meta kernel");
  }
  check_overlap(call);
  lowering::StorageProgram& program = context.program();
  lowering::Lowering& b = program.builder();
  std::vector<TensorType> types;
  if (meta) {
    describe_returns(plan, *meta, out);
    apply_meta_exceptions(call, out.results);
    for (const TensorSpec& spec : out.results)
      types.push_back(spec.defined ? spec.type() : TensorType{});
  } else {
    for (size_t i = 0; i < plan.return_alias.size(); ++i) {
      Entry::Return r;
      r.alias = plan.return_alias[i];
      if (r.alias < 0) r.first = static_cast<uint32_t>(i);
      out.returns.push_back(std::move(r));
    }
  }
  // `out=` tensors take the results; other mutated arguments (running statistics) what follows.
  std::vector<size_t> mutated;
  for (const bool outs : {true, false}) {
    for (size_t i = 0; i < call.tensors.size(); ++i) {
      const ArgPlan& arg = plan.args[static_cast<size_t>(call.tensors[i].arg)];
      if (!call.tensors[i].mutated || arg.is_out != outs) continue;
      mutated.push_back(i);
      types.push_back(
          {dtype_of(call.tensors[i].tensor->scalar_type()), call.tensors[i].tensor->sizes().vec()});
    }
  }
  b.begin_call(plan.name, types);
  std::vector<bool> contiguous;
  for (const TensorArgument& t : call.tensors) contiguous.push_back(t.tensor->is_contiguous());
  b.set_contiguous_arguments(std::move(contiguous));
  ArgumentBuilder builder(call, context);
  const lowering::Results values = plan.rule->lower(b, builder.build());
  size_t num_new = out.results.size();
  if (!meta && !plan.pure_inplace) {
    // No meta kernel: the rule's own types.
    TORCH_CHECK(values.size() >= mutated.size(), plan.name, ": the rule gave too few results");
    num_new = values.size() - mutated.size();
    for (size_t i = 0; i < num_new; ++i) {
      TensorSpec spec;
      spec.defined = values[i].has_value();
      out.results.push_back(spec.defined ? without_meta(call, values[i]->type()) : spec);
    }
    apply_meta_exceptions(call, out.results);
    // A Tensor[] return takes them all.
    const auto& returns = plan.op.schema().returns();
    if (returns.size() == 1 && returns[0].type()->kind() == c10::TypeKind::ListType) {
      out.returns[0].is_list = true;
      out.returns[0].count = static_cast<uint32_t>(num_new);
    }
  }
  TORCH_CHECK(values.size() >= num_new + mutated.size(), plan.name, ": the rule gave ",
              values.size(), " results, ", num_new + mutated.size(), " were expected");
  auto fitted = [&](const std::optional<Value>& value, const TensorType& type, size_t i) {
    TORCH_CHECK(value.has_value(), plan.name, ": the rule gave no value for result ", i);
    TORCH_CHECK(value->shape() == type.shape, plan.name, ": the rule gave shape ",
                to_string(value->shape()), " for result ", i, " of shape ", to_string(type.shape));
    return b.convert(*value, type.dtype);
  };
  for (size_t i = 0; i < num_new; ++i) {
    TensorSpec& spec = out.results[i];
    // A gradient that wasn't asked for is undefined, whatever the meta kernel makes of it.
    spec.defined = spec.defined && values[i].has_value();
    if (!spec.defined) {
      out.result_storages.push_back(0);
      continue;
    }
    const size_t storage = program.add_storage(spec.bytes, std::nullopt);
    program.write(storage, spec.view(), fitted(values[i], spec.type(), i));
    out.result_storages.push_back(storage);
  }
  for (size_t k = 0; k < mutated.size(); ++k) {
    const size_t i = mutated[k];
    const std::optional<Value>& value = values[num_new + k];
    if (!value) continue;  // left as it was
    const lowering::View view = view_of(*call.tensors[i].tensor);
    program.write(context.storage(call, i), view,
                  fitted(value, {view.dtype, view.sizes}, num_new + k));
  }
  return out;
}

namespace {

// One call, one program: storages by the call's tensor arguments, operands as parameters.
class SingleCall final : public CallContext {
 public:
  SingleCall(const Call& call, lowering::Settings settings) : program_(settings) {
    for (size_t i = 0; i < call.tensors.size(); ++i) {
      const TensorArgument& t = call.tensors[i];
      if (static_cast<size_t>(t.storage) != i) {
        storages_.push_back(storages_[static_cast<size_t>(t.storage)]);
        continue;
      }
      storages_.push_back(program_.add_storage(t.cell->bytes(), content_type(call, i)));
    }
  }
  lowering::StorageProgram& program() override { return program_; }
  size_t storage(const Call&, size_t index) override { return storages_[index]; }
  std::optional<lowering::Value> operand(const Call&, size_t index, DType dtype) override {
    return program_.add_operand(dtype, index);
  }
  size_t storage_of(size_t index) const { return storages_[index]; }

 private:
  static std::optional<TensorType> content_type(const Call& call, size_t i) {
    const TensorArgument& t = call.tensors[i];
    if (!t.buffer) return std::nullopt;
    const TensorType& type = t.buffer->type();
    if (!t.buffer->device().capabilities().dense_row_major) return type;
    // Dense buffers take any shape: the one that suits the view, the same for equal keys.
    bool alone = true;
    for (size_t k = 0; k < call.tensors.size(); ++k) {
      alone &= k == i || call.tensors[k].storage != static_cast<int>(i);
    }
    if (t.whole && alone) {
      return TensorType{
          type.dtype, lowering::physical_shape(t.tensor->sizes().vec(), t.tensor->strides().vec())};
    }
    return TensorType{type.dtype, {t.cell->bytes() / byte_size(type.dtype)}};
  }

  lowering::StorageProgram program_;
  std::vector<size_t> storages_;
};

}  // namespace

void finish_entry(Entry& entry, const Call& call, lowering::StorageProgram& program,
                  const EntryStorages& storages, runtime::Effort effort) {
  lowering::Values outputs;
  auto add_output = [&](size_t storage, int result, int tensor) {
    const lowering::Value content = program.content(storage);
    if (content.numel() == 0) return;
    Entry::Output output;
    output.result = result;
    output.tensor = tensor;
    output.type = runtime::intern_type(content.type());
    entry.output_bytes += content.numel() * byte_size(content.dtype());
    entry.outputs.push_back(output);
    outputs.push_back(content);
  };
  for (size_t i = 0; i < entry.results.size(); ++i) {
    if (entry.results[i].defined && entry.results[i].alias < 0 && entry.results[i].bytes > 0) {
      add_output(storages.results[i], static_cast<int>(i), -1);
    }
  }
  std::vector<std::optional<uint32_t>> tensor_of_storage(program.num_storages());
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    if (!storages.arguments[i] || call.tensors[i].storage != static_cast<int>(i)) continue;
    const size_t storage = *storages.arguments[i];
    if (!tensor_of_storage[storage]) tensor_of_storage[storage] = static_cast<uint32_t>(i);
    if (program.written(storage)) add_output(storage, -1, static_cast<int>(i));
  }
  if (outputs.empty()) return;
  // Overwritten storages give their memory to the new content.
  for (size_t k = 0; k < entry.outputs.size(); ++k) {
    const int tensor = entry.outputs[k].tensor;
    if (tensor < 0) continue;
    const auto parameter = program.parameter_of(*storages.arguments[static_cast<size_t>(tensor)]);
    if (!parameter) continue;
    const TensorType& from = program.builder().parameter_type(*parameter);
    if (from.dtype != outputs[k].dtype() || from.numel() != outputs[k].numel()) continue;
    program.builder().alias_parameter(*parameter, k);
    entry.donations.emplace_back(static_cast<uint32_t>(*parameter), static_cast<uint32_t>(tensor));
  }
  const auto sources = program.parameter_sources();
  for (size_t i = 0; i < sources.size(); ++i) {
    using Kind = lowering::StorageProgram::Source::Kind;
    Entry::Input input{};
    switch (sources[i].kind) {
      case Kind::kStorage:
        if (tensor_of_storage[sources[i].index]) {
          input = {Entry::Input::Kind::kTensor, *tensor_of_storage[sources[i].index], DType::kF32};
        } else {
          input = {Entry::Input::Kind::kCaptured, static_cast<uint32_t>(entry.captured.size()),
                   DType::kF32};
          entry.captured.push_back(storages.captured(sources[i].index));
        }
        break;
      case Kind::kOperand:
        input = {Entry::Input::Kind::kOperand, static_cast<uint32_t>(sources[i].index),
                 program.builder().parameter_type(i).dtype};
        break;
      case Kind::kRandomState:
        input = {Entry::Input::Kind::kRandom, 0, DType::kU64};
        break;
    }
    entry.inputs.push_back(input);
  }
  entry.random_blocks = program.builder().random_blocks();
  runtime::CompileRequest request;
  request.text = program.builder().finish(outputs);
  request.name = call.plan->name;
  request.effort = effort;
  request.observable_extremum = program.builder().has_observable_extremum();
  entry.program = runtime::compile(request);
}

std::unique_ptr<Entry> compile_call(Call& call) {
  auto entry = std::make_unique<Entry>();
  entry->origin = runtime::intern_origin(describe(call));
  SingleCall context(call, current_settings());
  LoweredCall lowered = lower_call(call, context);
  entry->results = std::move(lowered.results);
  entry->returns = std::move(lowered.returns);
  EntryStorages storages;
  storages.results = std::move(lowered.result_storages);
  for (size_t i = 0; i < call.tensors.size(); ++i)
    storages.arguments.emplace_back(context.storage_of(i));
  finish_entry(*entry, call, context.program(), storages);
  return entry;
}

}  // namespace torch_tpu::eager
