#pragma once

#include <ATen/core/stack.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "eager/op_plan.h"
#include "eager/storage.h"
#include "eager/tensor_spec.h"
#include "runtime/program.h"
#include "runtime/scalar_cache.h"

namespace torch_tpu::eager {

// The tensors and numbers of one call, in the order the key lists them.
struct TensorArgument {
  const at::Tensor* tensor = nullptr;
  Cell* cell = nullptr;
  runtime::BufferRef buffer;  // null: never written
  int arg = 0;                // schema argument
  int storage = 0;            // first tensor argument with this storage, or its own position
  bool whole = false;         // covers its storage densely, in the storage's type
  bool mutated = false;
};

struct OperandArgument {
  c10::Scalar value;
  int arg = 0;
  bool is_tensor = false;  // a 0-d CPU tensor
  bool wrapped = false;
  c10::ScalarType dtype = c10::ScalarType::Double;
};

// A call taken apart. Filled by `gather`, which also builds the key.
struct Call {
  const OpPlan* plan = nullptr;
  const c10::IValue* args = nullptr;
  int device = 0;
  std::vector<TensorArgument> tensors;
  std::unordered_map<const Cell*, int> positions;  // first argument by storage, for long lists
  std::vector<OperandArgument> operands;
  std::vector<uint64_t> key;
  std::optional<at::Generator> generator;
  bool lazy_bits = false;  // a tensor has its conjugate or negative bit set

  void clear();
};

// What a program needs and gives, by position in a Call.
struct Entry {
  std::vector<uint64_t> key;
  runtime::ProgramRef program;  // null: nothing to run
  struct Input {
    enum class Kind : uint8_t { kTensor, kOperand, kRandom, kCaptured } kind;
    uint32_t index = 0;
    DType dtype = DType::kF32;  // of an operand
  };
  std::vector<Input> inputs;
  std::vector<runtime::BufferRef> captured;
  std::vector<std::pair<uint32_t, uint32_t>> donations;  // input, tensor argument
  struct Output {
    int result = -1;  // new tensor number, or
    int tensor = -1;  // the tensor argument whose storage it becomes
    const TensorType* type = nullptr;
  };
  std::vector<Output> outputs;
  std::vector<TensorSpec> results;  // new tensors
  // How results fill the schema's returns: one per return.
  struct Return {
    int alias = -1;      // argument to hand back
    uint32_t first = 0;  // first new tensor
    uint32_t count = 1;  // how many (a Tensor[] return)
    bool is_list = false;
    c10::IValue constant;  // a return that is no tensor
    bool is_constant = false;
  };
  std::vector<Return> returns;
  int64_t random_blocks = 0;
  int64_t output_bytes = 0;
  // "aten::add.Tensor(float32[8, 8], float32[8, 8])", for ever.
  const std::string* origin = nullptr;
};

// A factor of 1 multiplies exactly: it is part of the key instead of an operand.
bool is_unit_factor(const ArgPlan& plan, const c10::IValue& value);

// Takes the arguments on top of the stack apart, checks devices, builds the key.
void gather(const OpPlan& plan, const c10::IValue* args, Call& call);

// Queues a cached program on the call's buffers, which it takes; gives the new tensors and writes
// the mutated cells. Their values are still to come.
void run(const Entry& entry, Call& call, std::vector<at::Tensor>& results);
// Replaces the arguments on the stack by the returns. Versions of tensors written through lists
// move on.
void push_returns(const Entry& entry, const OpPlan& plan, std::vector<at::Tensor>& results,
                  torch::jit::Stack& stack);

// "aten::add.Tensor(float32[8, 8], float32[8, 8])"
std::string describe(const Call& call);

}  // namespace torch_tpu::eager
