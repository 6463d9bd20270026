#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>
#include <string>
#include <vector>

#include "lowering/operator_table.h"

namespace torch_tpu::eager {

// How one schema argument enters the key and the rule.
enum class ArgKind : uint8_t {
  kTensor,              // Tensor or Tensor?
  kTensorList,          // Tensor[]
  kOptionalTensorList,  // Tensor?[]
  kNumber,              // bool, int, float or Scalar, by value in the key
  kOperand,             // the same as a 0-d operand of the program; only its kind is in the key
  kOperandList,         // Scalar[] as operands
  kIntList,             // int[], SymInt[], bool[]
  kDoubleList,          // float[]
  kScalarList,          // Scalar[] by value
  kString,
  kDType,
  kGenerator,
  kDevice,
  kIgnored,  // layout, pin_memory, memory_format: matter to the result's metadata only
};

struct ArgPlan {
  ArgKind kind = ArgKind::kIgnored;
  bool mutated = false;
  bool hidden_mutation = false;  // written without an annotation in the schema (running statistics)
  bool is_factor = false;        // alpha or beta: no part in promotion, and 1 is a constant
  bool is_out = false;           // an `out=` argument: no argument of the rule
  bool overwritten = false;      // written without being read: an `out=` argument, a filled one
  int rule_index = -1;           // position among the functional schema's arguments
};

// What is known of an operator before its first call with given arguments.
struct OpPlan {
  explicit OpPlan(const c10::OperatorHandle& handle);

  c10::OperatorHandle op;
  std::string name;  // "aten::add_.Tensor"
  const lowering::Rule* rule = nullptr;
  size_t num_rule_args = 0;
  std::vector<ArgPlan> args;
  bool mutates = false;
  bool has_meta = true;      // whether to ask PyTorch's meta kernel
  bool key_aliases = false;  // which arguments share a storage is part of the key
  bool is_out_variant = false;
  bool pure_inplace = false;    // all results are mutated arguments
  bool mutates_list = false;    // writes to tensors of a list
  bool has_index_list = false;  // takes Tensor?[]
  int device_argument = -1;     // of zeros_like, new_zeros and the like
  // For each return: the argument it aliases, or -1 for a new value.
  std::vector<int> return_alias;

  // The functional overload whose schema has this operator's arguments, for in-place and `out=`
  // ones.
  std::optional<c10::OperatorHandle> functional;
};

// The functional overload of an in-place or `out=` operator, found by name and signature.
std::optional<c10::OperatorHandle> find_functional(const c10::OperatorHandle& op);

// "add.Tensor" of "aten::add.Tensor" ("mm" has no dot).
std::string table_name(const c10::OperatorName& name);

}  // namespace torch_tpu::eager
