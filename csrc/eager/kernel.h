#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "eager/call.h"

namespace torch_tpu::eager {

// Entries of one operator by key: open addressing, keys compared in full.
class EntryTable {
 public:
  const Entry* find(const std::vector<uint64_t>& key) const;
  // Keeps the entry; gives the one already there if another thread was first.
  const Entry* insert(std::unique_ptr<Entry> entry);
  void for_each(const std::function<void(const Entry&)>& visit) const;

 private:
  static uint64_t hash(const std::vector<uint64_t>& key);
  void grow();
  mutable std::mutex mutex_;
  std::vector<std::pair<uint64_t, Entry*>> slots_;
  std::vector<std::unique_ptr<Entry>> entries_;
};

// The boxed kernel of one operator: key, cached program, execution.
class Kernel final : public c10::OperatorKernel {
 public:
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);
  // All new tensors that the operator's rule gives for the arguments on the stack, which may be
  // more than the schema returns; PyTorch's meta kernel is not asked.
  std::vector<at::Tensor> rule_results(const c10::OperatorHandle& op, torch::jit::Stack stack);

 private:
  const OpPlan& plan(const c10::OperatorHandle& op);
  void call(const OpPlan& plan, torch::jit::Stack& stack);
  // Slow path: nothing cached for these arguments.
  void miss(const OpPlan& plan, Call call, torch::jit::Stack& stack);

  std::once_flag once_;
  std::unique_ptr<OpPlan> plan_;
  EntryTable table_;
};

// Entries of all operators.
int64_t num_cached_calls();

}  // namespace torch_tpu::eager
