#include "eager/trace.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "eager/scalar_type.h"
#include "eager/settings.h"

namespace torch_tpu::eager {
namespace {

thread_local Trace* active_trace = nullptr;

}  // namespace

Trace* Trace::active() { return active_trace; }

Trace::Guard::Guard(Trace* trace) : previous_(active_trace) { active_trace = trace; }

Trace::Guard::~Guard() { active_trace = previous_; }

size_t Trace::storage_of(const at::Tensor& tensor) {
  Cell* cell = cell_of(tensor);
  auto [it, fresh] = by_cell_.try_emplace(cell, 0);
  if (fresh) {
    const runtime::BufferRef buffer = cell->buffer();
    std::optional<TensorType> content;
    if (buffer) content = buffer->type();
    it->second = program_.add_storage(cell->bytes(), content);
    impls_.emplace(it->second,
                   c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
                       tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()));
  }
  return it->second;
}

bool Trace::knows(const at::Tensor& tensor) const { return by_cell_.contains(cell_of(tensor)); }

void Trace::record(const OpPlan& plan, torch::jit::Stack& stack) {
  Call call;
  gather(plan, stack.data() + (stack.size() - plan.args.size()), call);
  LoweredCall lowered = [&] {
    // Meta kernels and checks inside must not be recorded.
    return lower_call(call, *this);
  }();
  Entry entry;
  entry.returns = std::move(lowered.returns);
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < lowered.results.size(); ++i) {
    const TensorSpec& spec = lowered.results[i];
    if (!spec.defined) {
      results.emplace_back();
      continue;
    }
    results.push_back(make_tensor(spec, call.device));
    const size_t storage = lowered.result_storages[i];
    by_cell_.emplace(cell_of(results.back()), storage);
    impls_.emplace(
        storage,
        c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
            results.back().unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()));
  }
  push_returns(entry, plan, results, stack);
}

std::unique_ptr<Entry> compile_traced(const Call& call,
                                      const std::function<torch::jit::Stack()>& body,
                                      runtime::Effort effort, bool may_alias) {
  auto entry = std::make_unique<Entry>();
  entry->origin = runtime::intern_origin(describe(call));
  Trace trace(current_settings());
  EntryStorages storages;
  {
    Trace::Guard guard(&trace);
    c10::impl::ExcludeDispatchKeyGuard no_autograd(
        c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const torch::jit::Stack returns = body();
    auto add_result = [&](const at::Tensor& t) {
      entry->results.push_back(TensorSpec::of(t));
      TensorSpec& spec = entry->results.back();
      storages.results.push_back(0);
      if (!t.defined()) return;
      TORCH_CHECK_NOT_IMPLEMENTED(t.is_privateuseone(), call.plan->name,
                                  ": a traced program gave a tensor on ", t.device());
      const at::Tensor plain = t.is_conj() || t.is_neg() ? t.resolve_conj().resolve_neg() : t;
      const size_t from = trace.storage_of(plain);
      if (may_alias && !trace.program().written(from)) {
        for (size_t i = 0; i < call.tensors.size(); ++i) {
          if (call.tensors[i].cell != cell_of(plain)) continue;
          spec.alias = static_cast<int>(i);
          spec.offset = plain.storage_offset();
          return;
        }
      }
      if (!plain.is_non_overlapping_and_dense())
        spec = TensorSpec::contiguous({dtype_of(spec.dtype), spec.sizes});
      const size_t to = trace.program().add_storage(spec.bytes, std::nullopt);
      trace.program().write(to, spec.view(), trace.program().read(from, view_of(plain)));
      storages.results.back() = to;
    };
    for (const c10::IValue& v : returns) {
      Entry::Return r;
      r.first = static_cast<uint32_t>(entry->results.size());
      if (v.isTensor()) {
        add_result(v.toTensor());
      } else if (v.isTensorList()) {
        r.is_list = true;
        r.count = 0;
        for (const at::Tensor& t : v.toTensorVector()) {
          add_result(t);
          ++r.count;
        }
      } else {
        r.is_constant = true;
        r.constant = v;
      }
      entry->returns.push_back(std::move(r));
    }
  }
  for (const TensorArgument& t : call.tensors) {
    storages.arguments.emplace_back();
    if (trace.knows(*t.tensor)) storages.arguments.back() = trace.storage_of(*t.tensor);
  }
  storages.captured = [&](size_t storage) {
    return cell_of(*trace.storage_impl(storage)).buffer();
  };
  finish_entry(*entry, call, trace.program(), storages, effort);
  return entry;
}

void refuse_in_trace(const char* what) {
  if (active_trace == nullptr) return;
  fail(ErrorKind::kNotImplemented, what, " needs a value that a traced program has yet to compute");
}

}  // namespace torch_tpu::eager
