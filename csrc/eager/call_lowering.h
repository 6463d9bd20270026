#pragma once

#include <functional>
#include <memory>

#include "eager/call.h"
#include "lowering/storage_program.h"

namespace torch_tpu::eager {

// A call appended to a program.
struct LoweredCall {
  std::vector<TensorSpec> results;      // new tensors
  std::vector<size_t> result_storages;  // their storages in the program; unused for undefined ones
  std::vector<Entry::Return> returns;
};

// The surroundings of a call that is lowered: a program of its own, or a trace of many calls.
class CallContext {
 public:
  virtual ~CallContext() = default;
  virtual lowering::StorageProgram& program() = 0;
  // The program's storage of tensor argument `index` of the call.
  virtual size_t storage(const Call& call, size_t index) = 0;
  // Operand `index` of the call as a 0-d parameter of `dtype`, or nothing to make it a constant.
  virtual std::optional<lowering::Value> operand(const Call& call, size_t index, DType dtype) = 0;
};

// Checks (overlap, `out=`), asks PyTorch for the results' metadata, runs the rule and records the
// writes. Throws what PyTorch's kernels throw for bad arguments.
LoweredCall lower_call(const Call& call, CallContext& context);

// Where a program's storages come from and go to.
struct EntryStorages {
  std::vector<size_t> results;                   // of the entry's results
  std::vector<std::optional<size_t>> arguments;  // of the call's tensor arguments, where known
  std::function<runtime::BufferRef(size_t)> captured;  // content of a storage that is no argument
};

// Closes the program: outputs, donation, sources of the parameters; compiles.
void finish_entry(Entry& entry, const Call& call, lowering::StorageProgram& program,
                  const EntryStorages& storages, runtime::Effort effort = runtime::Effort::kEager);

// The call as a program of its own, compiled.
std::unique_ptr<Entry> compile_call(Call& call);

}  // namespace torch_tpu::eager
