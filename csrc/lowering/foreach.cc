#include <algorithm>
#include <array>
#include <cmath>

#include "lowering/families.h"
#include "lowering/operator_table.h"
#include "lowering/pointwise.h"
#include "lowering/promotion.h"

namespace torch_tpu::lowering {
namespace {

// --- one element of a foreach call, as the rule of the plain operator would see it

PromotionOperand wrapped(Scalar::Kind kind) {
  constexpr std::array kTypes = {DType::kPred, DType::kS64, DType::kF64, DType::kC128};
  return {kTypes[static_cast<size_t>(kind)], PromotionOperand::Rank::kWrapped};
}

DType promoted_type(const Arguments& arguments) {
  using Rank = PromotionOperand::Rank;
  std::vector<PromotionOperand> operands;
  for (const Argument& a : arguments) {
    if (const auto* v = std::get_if<Value>(&a)) {
      operands.push_back({v->dtype(), v->rank() == 0 ? Rank::kZeroDim : Rank::kDimensioned});
    } else if (const auto* n = std::get_if<Operand>(&a)) {
      operands.push_back(wrapped(n->kind()));
    } else if (const auto* c = std::get_if<Scalar>(&a)) {
      operands.push_back(wrapped(c->kind));
    }
  }
  return result_type(operands);
}

// The operands in the type the rule's options ask for.
Arguments promoted(Lowering& b, const RuleOptions& options, Arguments arguments) {
  std::optional<DType> common;
  if (options.promotion != Promotion::kNone) {
    common = promoted_type(arguments);
    if (options.promotion == Promotion::kFloat && is_integral(*common)) common = DType::kF32;
  }
  for (Argument& a : arguments) {
    if (auto* v = std::get_if<Value>(&a)) {
      const DType type = common.value_or(v->dtype());
      *v = b.convert(*v, options.opmath ? opmath(type) : type);
    }
  }
  return arguments;
}

// Lists give their i-th member, everything else takes part in every element.
Argument element(const Argument& argument, size_t i) {
  if (const auto* v = std::get_if<Values>(&argument)) return v->at(i);
  if (const auto* v = std::get_if<std::vector<std::optional<Value>>>(&argument))
    return v->at(i).value();
  if (const auto* v = std::get_if<std::vector<Operand>>(&argument)) return v->at(i);
  if (const auto* v = std::get_if<std::vector<double>>(&argument)) return Scalar::of(v->at(i));
  if (const auto* v = std::get_if<IntList>(&argument)) return Scalar::of(v->at(i));
  return argument;
}

size_t list_length(const Lowering& b, const Arguments& arguments) {
  for (const Argument& a : arguments) {
    if (const auto* v = std::get_if<Values>(&a)) return v->size();
    if (const auto* v = std::get_if<std::vector<std::optional<Value>>>(&a)) return v->size();
  }
  b.not_implemented("a call without a list of tensors");
}

// The rule of the plain operator on every element. `defaults` are trailing arguments that the
// foreach schema lacks (alpha of add).
Results each(Lowering& b, const Rule& rule, const Arguments& arguments, const Arguments& defaults) {
  const std::string name = b.op_name();
  std::vector<TensorType> outputs;
  for (size_t i = 0; i < b.num_outputs(); ++i) outputs.push_back(b.out(i));
  Results results;
  for (size_t i = 0; i < list_length(b, arguments); ++i) {
    Arguments one;
    for (const Argument& a : arguments) one.push_back(element(a, i));
    one.insert(one.end(), defaults.begin(), defaults.end());
    b.begin_call(name, {outputs.at(i)});
    const Results r = rule.lower(b, promoted(b, rule.options, std::move(one)));
    results.push_back(b.convert(r.at(0).value(), outputs.at(i).dtype));
  }
  b.begin_call(name, std::move(outputs));
  return results;
}

// --- registration

void add_each(OperatorTable& table, const std::string& name, std::string_view of,
              Arguments defaults = {}) {
  const Rule* plain = table.find(of);
  TT_CHECK(plain != nullptr, kInternal, "aten::", name, " needs the rule of aten::", of);
  table.add(Rule{name,
                 {},
                 plain->scalar_forms,
                 [rule = *plain, defaults = std::move(defaults)](Lowering& b, const Arguments& a) {
                   return each(b, rule, a, defaults);
                 }});
}

// The overloads .List, .Scalar and .ScalarList of a binary operator.
void add_binary(OperatorTable& table, const std::string& name, std::string_view of_tensors,
                std::string_view of_scalar, const Arguments& scalar_defaults = {}) {
  add_each(table, "_foreach_" + name + ".List", of_tensors);
  add_each(table, "_foreach_" + name + ".Scalar", of_scalar, scalar_defaults);
  add_each(table, "_foreach_" + name + ".ScalarList", of_scalar, scalar_defaults);
}

// --- reductions of every tensor to a number

Value power_sum(Lowering& b, Value size, double ord) {
  const IntList dims = Lowering::all_dims(size.rank());
  return b.sum(ord == 1   ? size
               : ord == 2 ? square(b, size)
                          : power_constant(b, size, Scalar::of(ord)),
               dims);
}

Value norm(Lowering& b, Value size, double ord) {
  const IntList dims = Lowering::all_dims(size.rank());
  if (ord == HUGE_VAL) {
    return size.numel() == 0 ? b.constant(size.dtype(), 0) : b.reduce_max(size, dims);
  }
  if (ord == -HUGE_VAL) return b.reduce_min(size, dims);
  if (ord == 0)
    return b.sum(b.convert(b.compare(size, b.zeros_like(size), Compare::kNe), size.dtype()), dims);
  Value sum = power_sum(b, size, ord);
  if (ord == 1) return sum;
  return ord == 2 ? b.sqrt(sum) : power_constant(b, sum, Scalar::of(1 / ord));
}

template <Value (*Reduce)(Lowering&, Value, double)>
Values each_norm(Lowering& b, Values self, Scalar ord, std::optional<DType> dtype) {
  Values results;
  for (size_t i = 0; i < self.size(); ++i) {
    Value x = dtype ? b.convert(self[i], *dtype) : self[i];
    results.push_back(b.convert(Reduce(b, b.abs(b.convert(x, opmath(x.dtype()))), ord.to_double()),
                                b.out(i).dtype));
  }
  return results;
}

Values each_max(Lowering& b, Values self) {
  for (Value& x : self) x = b.reduce_max(x, Lowering::all_dims(x.rank()));
  return self;
}

Values each_zero(Lowering& b, Values self) {
  for (Value& x : self) x = b.zeros_like(x);
  return self;
}

}  // namespace

void register_foreach(OperatorTable& table) {
  for (const char* name :
       {"abs",   "acos", "asin",  "atan",  "ceil",  "cos",        "cosh",    "erf",
        "erfc",  "exp",  "expm1", "floor", "frac",  "lgamma",     "log",     "log10",
        "log1p", "log2", "neg",   "round", "rsqrt", "reciprocal", "sigmoid", "sign",
        "sin",   "sinh", "sqrt",  "tan",   "tanh",  "trunc",      "clone"}) {
    add_each(table, "_foreach_" + std::string(name), name);
  }

  const Arguments one = {Operand(Scalar::of(int64_t{1}))};
  add_binary(table, "add", "add.Tensor", "add.Scalar", one);
  add_binary(table, "sub", "sub.Tensor", "sub.Scalar", one);
  add_binary(table, "mul", "mul.Tensor", "mul.Scalar");
  add_binary(table, "div", "div.Tensor", "div.Scalar");
  add_binary(table, "pow", "pow.Tensor_Tensor", "pow.Tensor_Scalar");
  add_binary(table, "maximum", "maximum", "clamp_min");
  add_binary(table, "minimum", "minimum", "clamp_max");
  add_binary(table, "clamp_min", "clamp_min.Tensor", "clamp_min");
  add_binary(table, "clamp_max", "clamp_max.Tensor", "clamp_max");
  add_binary(table, "lerp", "lerp.Tensor", "lerp.Scalar");
  add_each(table, "_foreach_add.Tensor", "add.Tensor");
  add_each(table, "_foreach_mul.Tensor", "mul.Tensor");
  add_each(table, "_foreach_div.Tensor", "div.Tensor");
  add_each(table, "_foreach_pow.ScalarAndTensor", "pow.Scalar");
  for (const char* name : {"addcmul", "addcdiv"}) {
    add_each(table, "_foreach_" + std::string(name) + ".Scalar", name);
    add_each(table, "_foreach_" + std::string(name) + ".ScalarList", name);
  }

  add_each(table, "_foreach_copy", "copy");
  if (table.find("mm") != nullptr) add_each(table, "_foreach_mm", "mm");
  table.add("_foreach_zero", each_zero);
  table.add("_foreach_max", each_max);
  table.add("_foreach_norm.Scalar", each_norm<norm>);
  table.add("_foreach_powsum.Scalar", each_norm<power_sum>);
}

}  // namespace torch_tpu::lowering
