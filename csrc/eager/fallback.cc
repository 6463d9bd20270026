#include "eager/fallback.h"

#include <ATen/core/List.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <pybind11/pybind11.h>

#include <mutex>
#include <unordered_map>

#include "base/env.h"
#include "eager/call_lowering.h"
#include "eager/kernel.h"
#include "eager/settings.h"
#include "eager/trace.h"

namespace torch_tpu::eager {
namespace {

enum class Route : uint8_t {
  kUnknown,
  kFunctional,
  kFunctionalDecomposition,
  kDecomposition,
  kCpu
};

// What is known of an operator without a rule.
struct Unruled {
  explicit Unruled(const c10::OperatorHandle& op) : plan(op) {}
  OpPlan plan;
  EntryTable table;
  std::atomic<Route> route{Route::kUnknown};
};

Unruled& unruled(const c10::OperatorHandle& op) {
  static std::mutex mutex;
  static auto* all = new std::unordered_map<c10::OperatorName, std::unique_ptr<Unruled>>();
  std::lock_guard lock(mutex);
  auto& slot = (*all)[op.operator_name()];
  if (!slot) slot = std::make_unique<Unruled>(op);
  return *slot;
}

struct Report {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
};

Report& report() {
  static auto* r = new Report();
  return *r;
}

void call_decomposition(Unruled& op, torch::jit::Stack& stack) {
  const OpPlan& plan = op.plan;
  if (Trace::active() != nullptr) {
    run_decomposition(plan, stack);
    return;
  }
  const size_t base = stack.size() - plan.args.size();
  Call call;
  gather(plan, stack.data() + base, call);
  const Entry* entry = op.table.find(call.key);
  if (entry == nullptr) {
    std::unique_ptr<Entry> made = compile_traced(
        call,
        [&] {
          torch::jit::Stack inner(stack.begin() + static_cast<std::ptrdiff_t>(base), stack.end());
          run_decomposition(plan, inner);
          return inner;
        },
        runtime::Effort::kEager, /*may_alias=*/false);
    made->key = call.key;
    entry = op.table.insert(std::move(made));
  }
  std::vector<at::Tensor> results;
  run(*entry, call, results);
  call.clear();
  push_returns(*entry, plan, results, stack);
}

// Operators being decomposed on this thread: a decomposition that comes back to itself can't be
// used.
thread_local std::vector<const Unruled*> decomposing;

struct DecomposingScope {
  explicit DecomposingScope(const Unruled* op) { decomposing.push_back(op); }
  ~DecomposingScope() { decomposing.pop_back(); }
};

void serve(Unruled& op, torch::jit::Stack& stack) {
  const OpPlan& plan = op.plan;
  Route route = op.route.load();
  if (route == Route::kUnknown) {
    // PyTorch's structured composites of functional forms call the `out=` form: they would come
    // back.
    const bool structured =
        plan.functional &&
        plan.functional->hasKernelForDispatchKey(
            c10::DispatchKey::CompositeExplicitAutogradNonFunctional) &&
        !plan.functional->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1);
    if (structured) {
      route = has_decomposition(*plan.functional) ? Route::kFunctionalDecomposition : Route::kCpu;
    } else if (plan.functional) {
      route = Route::kFunctional;
    } else if (!plan.mutates && has_decomposition(plan.op)) {
      route = Route::kDecomposition;
    } else {
      route = Route::kCpu;
    }
    op.route.store(route);
  }
  switch (route) {
    case Route::kFunctional:
      call_functional(plan, stack);
      return;
    case Route::kFunctionalDecomposition:
      call_functional(plan, stack,
                      [&](torch::jit::Stack& inner) { serve(unruled(*plan.functional), inner); });
      return;
    case Route::kDecomposition: {
      const bool itself =
          std::find(decomposing.begin(), decomposing.end(), &op) != decomposing.end();
      if (!itself) {
        DecomposingScope scope(&op);
        try {
          call_decomposition(op, stack);
          return;
        } catch (const c10::NotImplementedError&) {
          if (Trace::active() != nullptr) throw;
        } catch (const Error& error) {
          if (error.kind() != ErrorKind::kNotImplemented || Trace::active() != nullptr) throw;
        } catch (pybind11::error_already_set& error) {
          pybind11::gil_scoped_acquire gil;
          if (!error.matches(PyExc_NotImplementedError) || Trace::active() != nullptr) throw;
        }
        // It met something that can't be traced: from now on the CPU.
        op.route.store(Route::kCpu);
      }
      call_on_cpu(plan.op, &stack);
      return;
    }
    default:
      call_on_cpu(plan.op, &stack);
  }
}

}  // namespace

std::map<std::string, int64_t> fallback_report() {
  Report& r = report();
  std::lock_guard lock(r.mutex);
  return r.counts;
}

void clear_fallback_report() {
  Report& r = report();
  std::lock_guard lock(r.mutex);
  r.counts.clear();
}

void call_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string name = c10::toString(op.operator_name());
  const std::string mode = env<EnvVar::kFallback>();
  TORCH_CHECK_NOT_IMPLEMENTED(Trace::active() == nullptr, name,
                              " is not implemented for device tpu inside a traced program");
  TORCH_CHECK_NOT_IMPLEMENTED(mode != "error", name,
                              " is not implemented for device tpu, and TORCH_TPU_FALLBACK=error "
                              "forbids running it on the CPU");
  bool first = false;
  {
    Report& r = report();
    std::lock_guard lock(r.mutex);
    first = ++r.counts[name] == 1;
  }
  if (first && mode == "warn") {
    TORCH_WARN(
        name,
        " has no implementation for device tpu and runs on the CPU, with copies both ways "
        "(torch.tpu.fallback_report() counts such calls, TORCH_TPU_FALLBACK=error forbids them)");
  }
  at::native::cpu_fallback(op, stack);
}

bool call_functional(const OpPlan& plan, torch::jit::Stack& stack,
                     const std::function<void(torch::jit::Stack&)>& functional) {
  if (!plan.functional) return false;
  const auto& schema = plan.op.schema();
  const auto& other = plan.functional->schema();
  const size_t base = stack.size() - plan.args.size();
  torch::jit::Stack inner;
  for (const auto& argument : other.arguments()) {
    const auto index = schema.argumentIndexWithName(argument.name());
    if (index) {
      inner.push_back(stack[base + static_cast<size_t>(*index)]);
    } else if (argument.default_value()) {
      inner.push_back(*argument.default_value());
    } else {
      inner.emplace_back();
    }
  }
  // Factories take the result's type and place from the `out=` tensor.
  for (size_t i = 0; i < plan.args.size(); ++i) {
    if (!plan.args[i].is_out || !stack[base + i].isTensor()) continue;
    const at::Tensor& out = stack[base + i].toTensor();
    for (size_t k = 0; k < other.arguments().size(); ++k) {
      if (schema.argumentIndexWithName(other.arguments()[k].name())) continue;
      if (other.arguments()[k].name() == "device") inner[k] = out.device();
      if (other.arguments()[k].name() == "dtype") inner[k] = out.scalar_type();
    }
  }
  if (functional) {
    functional(inner);
  } else {
    plan.functional->callBoxed(&inner);
  }
  // Results go to the mutated arguments in order; what comes before them are plain returns.
  std::vector<size_t> mutated;
  for (size_t i = 0; i < plan.args.size(); ++i) {
    if (plan.args[i].mutated) mutated.push_back(i);
  }
  if (inner.size() < mutated.size()) return false;
  const size_t plain = inner.size() - mutated.size();
  auto assign = [&](const at::Tensor& to, const at::Tensor& from, bool is_out) {
    if (is_out && to.sizes() != from.sizes()) to.resize_(from.sizes());
    TORCH_CHECK(!is_out || c10::canCast(from.scalar_type(), to.scalar_type()), "result type ",
                from.scalar_type(), " can't be cast to the desired output type ", to.scalar_type());
    TORCH_CHECK(to.sizes() == from.sizes(), "output with shape ", to.sizes(),
                " doesn't match the broadcast shape ", from.sizes());
    to.copy_(from);
  };
  for (size_t k = 0; k < mutated.size(); ++k) {
    const c10::IValue& to = stack[base + mutated[k]];
    const c10::IValue& from = inner[plain + k];
    if (to.isTensor() && from.isTensor()) {
      assign(to.toTensor(), from.toTensor(), plan.args[mutated[k]].is_out);
    } else if (to.isTensorList() && from.isTensorList()) {
      const auto targets = to.toTensorVector();
      const auto sources = from.toTensorVector();
      for (size_t i = 0; i < targets.size(); ++i)
        assign(targets[i], sources[i], plan.args[mutated[k]].is_out);
    }
  }
  torch::jit::Stack returns;
  size_t next = 0;
  for (size_t i = 0; i < plan.return_alias.size(); ++i) {
    const int alias = plan.return_alias[i];
    returns.push_back(alias >= 0 ? stack[base + static_cast<size_t>(alias)] : inner[next++]);
  }
  torch::jit::drop(stack, plan.args.size());
  stack.insert(stack.end(), returns.begin(), returns.end());
  return true;
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  try {
    serve(unruled(op), *stack);
  } catch (const Error& error) {
    rethrow_as_torch(error);
  }
}

}  // namespace torch_tpu::eager
