#pragma once

#include <unordered_map>
#include <vector>

#include "eager/call_lowering.h"

namespace torch_tpu::eager {

// Many calls recorded into one program. While a trace is active on a thread, operators on that
// thread append to it instead of running; tensors keep their metadata, their values exist in the
// program only.
class Trace final : public CallContext {
 public:
  explicit Trace(lowering::Settings settings) : program_(settings) {}

  static Trace* active();
  // Makes a trace (or none) the thread's active one.
  class Guard {
   public:
    explicit Guard(Trace* trace);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Trace* previous_;
  };

  // Appends the call whose arguments are on the stack; leaves its returns there.
  void record(const OpPlan& plan, torch::jit::Stack& stack);

  lowering::StorageProgram& program() override { return program_; }
  size_t storage(const Call& call, size_t index) override {
    return storage_of(*call.tensors[index].tensor);
  }
  std::optional<lowering::Value> operand(const Call&, size_t, DType) override {
    return std::nullopt;
  }

  // The program's storage behind a tensor.
  size_t storage_of(const at::Tensor& tensor);
  // A storage known to the trace, whose content is not the cell's but the program's.
  bool knows(const at::Tensor& tensor) const;
  // The torch storage behind a storage of the program.
  c10::StorageImpl* storage_impl(size_t storage) const { return impls_.at(storage).get(); }

 private:
  lowering::StorageProgram program_;
  std::unordered_map<const Cell*, size_t> by_cell_;
  std::unordered_map<size_t, c10::intrusive_ptr<c10::StorageImpl>>
      impls_;  // kept alive: cells are keys
};

// A call whose body is `body`, run under a trace: `body` gives the returns as a stack. With
// `may_alias`, a result that is an argument (or a view of one) unchanged shares its storage.
std::unique_ptr<Entry> compile_traced(const Call& call,
                                      const std::function<torch::jit::Stack()>& body,
                                      runtime::Effort effort, bool may_alias);

// Throws when the thread is tracing: a value was asked for that doesn't exist yet.
void refuse_in_trace(const char* what);

}  // namespace torch_tpu::eager
