#include "eager/kernel.h"

#include <ATen/core/List.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/nonzero.h>

#include "base/hash.h"
#include "base/log.h"
#include "eager/call_lowering.h"
#include "eager/device_index.h"
#include "eager/fallback.h"
#include "eager/meta_call.h"
#include "eager/trace.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

std::atomic<int64_t> cached_calls{0};

// Index lists may hold masks and CPU tensors: masks become the positions of their true elements.
void expand_indices(const OpPlan& plan, torch::jit::Stack& stack) {
  const size_t base = stack.size() - plan.args.size();
  for (size_t i = 0; i < plan.args.size(); ++i) {
    if (plan.args[i].kind != ArgKind::kOptionalTensorList || stack[base + i].isNone()) continue;
    bool change = false;
    for (const c10::IValue& item : stack[base + i].toListRef()) {
      if (!item.isTensor() || !item.toTensor().defined()) continue;
      const at::Tensor& t = item.toTensor();
      change |= t.is_cpu() || t.scalar_type() == at::kBool || t.scalar_type() == at::kByte;
    }
    if (!change) continue;
    const at::Tensor* self = nullptr;
    for (size_t k = 0; k < plan.args.size() && self == nullptr; ++k) {
      if (plan.args[k].kind == ArgKind::kTensor && stack[base + k].isTensor())
        self = &stack[base + k].toTensor();
    }
    c10::List<std::optional<at::Tensor>> out;
    for (const c10::IValue& item : stack[base + i].toListRef()) {
      if (!item.isTensor() || !item.toTensor().defined()) {
        out.push_back(std::nullopt);
        continue;
      }
      at::Tensor t = item.toTensor();
      if (t.scalar_type() == at::kBool || t.scalar_type() == at::kByte) {
        for (int64_t d = 0; d < t.dim(); ++d) {
          const int64_t at = static_cast<int64_t>(out.size()) + d;
          TORCH_CHECK_INDEX(self == nullptr || (at < self->dim() && t.size(d) == self->size(at)),
                            "The shape of the mask ", t.sizes(), " at index ", d,
                            " does not match the shape of the indexed tensor ",
                            self == nullptr ? at::IntArrayRef() : self->sizes(), " at index ", at);
        }
        if (self != nullptr) t = t.to(self->device());
        const at::Tensor positions = at::nonzero(t);
        for (int64_t d = 0; d < t.dim(); ++d) out.push_back(positions.select(1, d));
        if (t.dim() == 0) out.push_back(positions.select(1, 0));
      } else {
        out.push_back(self != nullptr ? t.to(self->device()) : t);
      }
    }
    stack[base + i] = std::move(out);
  }
}

// PyTorch lets some operators (matrix products, linear algebra) see conjugate and negative views:
// their kernels on other devices have flags for them. Ours take plain values.
void resolve_lazy_bits(const OpPlan& plan, torch::jit::Stack& stack) {
  auto resolved = [&](const at::Tensor& t, bool mutated) {
    if (!t.defined() || (!t.is_conj() && !t.is_neg())) return t;
    TORCH_CHECK_NOT_IMPLEMENTED(!mutated, plan.name,
                                ": writing into a conjugate or negative view is not implemented "
                                "for device tpu");
    return t.resolve_conj().resolve_neg();
  };
  const size_t base = stack.size() - plan.args.size();
  for (size_t i = 0; i < plan.args.size(); ++i) {
    c10::IValue& v = stack[base + i];
    if (v.isTensor()) {
      v = resolved(v.toTensor(), plan.args[i].mutated);
    } else if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector())
        list.push_back(resolved(t, plan.args[i].mutated));
      v = std::move(list);
    }
  }
}

// For a result on another device than the arguments', tensors there take their places. zeros_like,
// new_zeros and their kin look at the metadata of `self` only.
bool call_on_other_device(const OpPlan& plan, torch::jit::Stack& stack) {
  const size_t base = stack.size() - plan.args.size();
  const c10::IValue& asked = stack[base + static_cast<size_t>(plan.device_argument)];
  if (asked.isNone()) return false;
  c10::Device device = asked.toDevice();
  if (device.is_privateuseone() && !device.has_index())
    device.set_index(static_cast<c10::DeviceIndex>(current_device()));
  bool elsewhere = false;
  for (size_t i = 0; i < plan.args.size(); ++i) {
    const c10::IValue& v = stack[base + i];
    elsewhere |= v.isTensor() && v.toTensor().defined() && v.toTensor().is_privateuseone() &&
                 v.toTensor().device() != device;
  }
  if (!elsewhere) return false;
  for (size_t i = 0; i < plan.args.size(); ++i) {
    c10::IValue& v = stack[base + i];
    if (!v.isTensor() || !v.toTensor().defined()) continue;
    const at::Tensor t = v.toTensor();
    v = plan.op.schema().arguments()[i].name() == "self"
            ? at::empty_strided(t.sizes(), t.strides(), t.options().device(device))
            : t.to(device);
  }
  plan.op.callBoxed(&stack);
  return true;
}

// Gives `out=` tensors the sizes of the results, with PyTorch's checks and warnings (made by the
// meta kernel). False where PyTorch has no meta kernel.
bool resize_outputs(const OpPlan& plan, torch::jit::Stack& stack) {
  const c10::IValue* args = stack.data() + (stack.size() - plan.args.size());
  const auto meta = meta_call(plan, args);
  if (!meta) return false;
  for (size_t i = 0; i < plan.return_alias.size() && i < meta->size(); ++i) {
    const int alias = plan.return_alias[i];
    if (alias < 0 || !plan.args[static_cast<size_t>(alias)].is_out || !(*meta)[i].isTensor())
      continue;
    const at::Tensor& m = (*meta)[i].toTensor();
    const at::Tensor& t = args[alias].toTensor();
    if (t.sizes() != m.sizes()) {
      t.resize_(m.sizes());
      // The meta kernel may have chosen another memory order for a tensor that it was free to
      // resize.
      if (m.strides() != t.strides()) t.as_strided_(m.sizes(), m.strides());
    }
  }
  return true;
}

}  // namespace

int64_t num_cached_calls() { return cached_calls.load(); }

uint64_t EntryTable::hash(const std::vector<uint64_t>& key) {
  WordHasher h;
  for (uint64_t w : key) h.add(w);
  return h.finish().low;
}

const Entry* EntryTable::find(const std::vector<uint64_t>& key) const {
  const uint64_t h = hash(key);
  std::lock_guard lock(mutex_);
  if (slots_.empty()) return nullptr;
  const size_t mask = slots_.size() - 1;
  for (size_t i = h & mask;; i = (i + 1) & mask) {
    const auto& [stored, entry] = slots_[i];
    if (entry == nullptr) return nullptr;
    if (stored == h && entry->key == key) return entry;
  }
}

const Entry* EntryTable::insert(std::unique_ptr<Entry> entry) {
  if (const Entry* there = find(entry->key)) return there;
  const uint64_t h = hash(entry->key);
  std::lock_guard lock(mutex_);
  if (entries_.size() * 2 >= slots_.size()) grow();
  const size_t mask = slots_.size() - 1;
  size_t i = h & mask;
  while (slots_[i].second != nullptr) i = (i + 1) & mask;
  slots_[i] = {h, entry.get()};
  entries_.push_back(std::move(entry));
  cached_calls.fetch_add(1);
  return entries_.back().get();
}

void EntryTable::for_each(const std::function<void(const Entry&)>& visit) const {
  std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) visit(*entry);
}

void EntryTable::grow() {
  std::vector<std::pair<uint64_t, Entry*>> old(slots_.empty() ? 8 : slots_.size() * 2);
  old.swap(slots_);
  const size_t mask = slots_.size() - 1;
  for (const auto& slot : old) {
    if (slot.second == nullptr) continue;
    size_t i = slot.first & mask;
    while (slots_[i].second != nullptr) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

const OpPlan& Kernel::plan(const c10::OperatorHandle& op) {
  std::call_once(once_, [&] { plan_ = std::make_unique<OpPlan>(op); });
  return *plan_;
}

void Kernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet,
                        torch::jit::Stack* stack) {
  const OpPlan& p = plan(op);
  // A start that fails is no reason to try the CPU.
  if (!runtime::Runtime::started()) [[unlikely]]
    translated([] { runtime::Runtime::get(); });
  try {
    call(p, *stack);
  } catch (const Error& error) {
    // A rule that doesn't cover this form: the CPU does, reported. The arguments are still in
    // place.
    if (error.kind() != ErrorKind::kNotImplemented || Trace::active() != nullptr)
      rethrow_as_torch(error);
    TT_LOG(kInfo, p.name, " goes to the CPU: ", error.what());
    call_on_cpu(op, stack);
  }
}

std::vector<at::Tensor> Kernel::rule_results(const c10::OperatorHandle& op,
                                             torch::jit::Stack stack) {
  std::call_once(once_, [&] {
    plan_ = std::make_unique<OpPlan>(op);
    plan_->has_meta = false;
  });
  const OpPlan& p = *plan_;
  TORCH_CHECK_NOT_IMPLEMENTED(p.rule != nullptr, p.name, " is not implemented for device tpu");
  refuse_in_trace(p.name.c_str());
  Call call;
  gather(p, stack.data(), call);
  const Entry* entry = table_.find(call.key);
  if (entry == nullptr) {
    std::unique_ptr<Entry> made = compile_call(call);
    made->key = call.key;
    entry = table_.insert(std::move(made));
  }
  std::vector<at::Tensor> results;
  run(*entry, call, results);
  return results;
}

void Kernel::call(const OpPlan& p, torch::jit::Stack& stack) {
  if (p.has_index_list) expand_indices(p, stack);
  if (p.device_argument >= 0 && call_on_other_device(p, stack)) return;
  if (Trace* trace = Trace::active()) [[unlikely]] {
    resolve_lazy_bits(p, stack);
    trace->record(p, stack);
    return;
  }
  thread_local Call scratch;
  thread_local std::vector<at::Tensor> results;
  gather(p, stack.data() + (stack.size() - p.args.size()), scratch);
  if (scratch.lazy_bits) [[unlikely]] {
    resolve_lazy_bits(p, stack);
    gather(p, stack.data() + (stack.size() - p.args.size()), scratch);
  }
  const Entry* entry = table_.find(scratch.key);
  if (entry == nullptr) [[unlikely]] {
    Call own;
    std::swap(own, scratch);
    miss(p, std::move(own), stack);
    return;
  }
  results.clear();
  run(*entry, scratch, results);
  scratch.clear();
  push_returns(*entry, p, results, stack);
  results.clear();
}

void Kernel::miss(const OpPlan& p, Call call, torch::jit::Stack& stack) {
  if (p.is_out_variant) {
    call.clear();
    if (!resize_outputs(p, stack)) {
      TORCH_CHECK_NOT_IMPLEMENTED(call_functional(p, stack), p.name,
                                  " is not implemented for device tpu");
      return;
    }
    gather(p, stack.data() + (stack.size() - p.args.size()), call);
  }
  const Entry* entry = table_.find(call.key);
  if (entry == nullptr) {
    std::unique_ptr<Entry> made = compile_call(call);
    made->key = call.key;
    entry = table_.insert(std::move(made));
  }
  std::vector<at::Tensor> results;
  run(*entry, call, results);
  call.clear();
  push_returns(*entry, p, results, stack);
}

}  // namespace torch_tpu::eager
