#include "eager/call.h"

#include <ATen/core/List.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

#include "base/inline_vector.h"
#include "eager/device_index.h"
#include "eager/generator.h"
#include "eager/scalar_type.h"
#include "eager/settings.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

// Tags of the words that start an argument in the key; the low byte.
enum Tag : uint64_t {
  kNone = 1,
  kTensorTag,
  kListTag,
  kNumberTag,
  kOperandTag,
  kZeroDimTag,
  kIntsTag,
  kDoublesTag,
  kStringTag
};

// Flags of a tensor word.
constexpr uint64_t kContiguousFlag = uint64_t{1} << 24;
constexpr uint64_t kWholeFlag = uint64_t{1} << 25;
constexpr uint64_t kUnwrittenFlag = uint64_t{1} << 26;
constexpr uint64_t kAliasFlag = uint64_t{1} << 27;

[[noreturn, gnu::cold, gnu::noinline]] void mixed_devices(const Call& call, const at::Tensor& other,
                                                          int arg) {
  std::string where = "cpu";
  for (const TensorArgument& t : call.tensors) where = t.tensor->device().str();
  if (call.tensors.empty()) where = "tpu:" + std::to_string(current_device());
  TORCH_CHECK(false,
              "Expected all tensors to be on the same device, but found at least two devices, ",
              where, " and ", other.device().str(), "! (when checking argument '",
              call.plan->op.schema().arguments()[static_cast<size_t>(arg)].name(), "' of ",
              call.plan->name, ")");
}

void add_operand(Call& call, OperandArgument operand, Tag tag) {
  const auto kind = static_cast<uint64_t>(operand.value.type());
  call.key.push_back(tag | (kind << 8) | (operand.wrapped ? 1u << 16 : 0u) |
                     (static_cast<uint64_t>(operand.dtype) << 20));
  call.operands.push_back(std::move(operand));
}

[[gnu::cold, gnu::noinline]] void add_cpu_tensor(Call& call, const at::Tensor& t, int arg) {
  if (!t.is_cpu() || t.dim() != 0 || call.plan->args[static_cast<size_t>(arg)].mutated)
    mixed_devices(call, t, arg);
  OperandArgument operand;
  operand.value = t.item();
  operand.arg = arg;
  operand.is_tensor = true;
  operand.wrapped = t.unsafeGetTensorImpl()->is_wrapped_number();
  operand.dtype = t.scalar_type();
  add_operand(call, std::move(operand), kZeroDimTag);
}

// The first tensor argument with this storage, `position` if there is none. Long lists (optimizers)
// go through a map.
int first_with_cell(Call& call, Cell* cell, int position) {
  constexpr int kScan = 16;
  if (position < kScan) {
    for (int i = 0; i < position; ++i) {
      if (call.tensors[static_cast<size_t>(i)].cell == cell) return i;
    }
    return position;
  }
  if (call.positions.empty()) {
    for (int i = 0; i < position; ++i)
      call.positions.try_emplace(call.tensors[static_cast<size_t>(i)].cell, i);
  }
  return call.positions.try_emplace(cell, position).first->second;
}

// A lost value may still be overwritten.
[[gnu::cold, gnu::noinline]] void forget_or_throw(const Call& call, TensorArgument& a,
                                                  const c10::TensorImpl& impl) {
  const bool covered = impl.storage_offset() == 0 && impl.is_non_overlapping_and_dense() &&
                       impl.numel() * static_cast<int64_t>(impl.itemsize()) == a.cell->bytes();
  if (!covered || !call.plan->args[static_cast<size_t>(a.arg)].overwritten) throw a.buffer->error();
  a.buffer.reset();
}

void add_tensor(Call& call, const at::Tensor& t, int arg, bool mutated) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  if (impl->device_type() != c10::DeviceType::PrivateUse1) [[unlikely]] {
    add_cpu_tensor(call, t, arg);
    return;
  }
  const c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  TORCH_CHECK(is_tpu_storage(*storage), call.plan->name,
              ": the tensor has no storage on the device");
  Cell* cell = static_cast<Cell*>(storage->data_ptr().get_context());
  const auto position = static_cast<int>(call.tensors.size());
  TensorArgument a;
  a.tensor = &t;
  a.cell = cell;
  a.arg = arg;
  a.storage = position;
  a.mutated = mutated;
  if (position == 0) {
    call.device = cell->device();
  } else if (cell->device() != call.device) [[unlikely]] {
    mixed_devices(call, t, arg);
  }
  if (call.plan->key_aliases) a.storage = first_with_cell(call, cell, position);
  const bool alias = a.storage != position;
  if (!alias) {
    a.buffer = cell->buffer();
    if (a.buffer && a.buffer->failed()) [[unlikely]]
      forget_or_throw(call, a, *impl);
  }
  const runtime::Buffer* buffer =
      alias ? call.tensors[static_cast<size_t>(a.storage)].buffer.get() : a.buffer.get();
  if (impl->key_set().has_any(c10::DispatchKeySet(
          {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}))) [[unlikely]] {
    call.lazy_bits = true;
  }
  const auto dtype = impl->dtype().toScalarType();
  const auto sizes = impl->sizes();
  const bool contiguous = impl->is_contiguous();
  const auto offset = impl->storage_offset();
  a.whole = offset == 0 &&
            impl->numel() * static_cast<int64_t>(impl->itemsize()) == cell->bytes() &&
            (contiguous || impl->is_non_overlapping_and_dense()) &&
            (buffer == nullptr || buffer->type().dtype == dtype_of(dtype));
  uint64_t word = kTensorTag | (static_cast<uint64_t>(dtype) << 8) |
                  (static_cast<uint64_t>(sizes.size()) << 16);
  if (contiguous) word |= kContiguousFlag;
  if (a.whole) word |= kWholeFlag;
  if (buffer == nullptr) word |= kUnwrittenFlag;
  if (impl->is_wrapped_number()) word |= uint64_t{1} << 28;
  if (alias) word |= kAliasFlag | (static_cast<uint64_t>(a.storage) << 32);
  call.key.push_back(word);
  for (int64_t d : sizes) call.key.push_back(static_cast<uint64_t>(d));
  if (!contiguous) {
    for (int64_t d : impl->strides()) call.key.push_back(static_cast<uint64_t>(d));
  }
  if (!a.whole) {
    call.key.push_back(static_cast<uint64_t>(offset));
    call.key.push_back(static_cast<uint64_t>(cell->bytes()));
    if (buffer != nullptr) call.key.push_back(static_cast<uint64_t>(buffer->type().dtype));
  }
  if (buffer != nullptr && !buffer->device().capabilities().dense_row_major) [[unlikely]] {
    for (int64_t d : buffer->type().shape) call.key.push_back(static_cast<uint64_t>(d));
  }
  call.tensors.push_back(std::move(a));
}

void add_number(Call& call, const c10::IValue& v) {
  uint64_t bits = 0;
  uint64_t kind = 0;
  if (v.isInt()) {
    bits = static_cast<uint64_t>(v.toInt());
  } else if (v.isDouble()) {
    kind = 1;
    bits = std::bit_cast<uint64_t>(v.toDouble());
  } else if (v.isBool()) {
    kind = 2;
    bits = v.toBool() ? 1 : 0;
  } else if (v.isComplexDouble()) {
    kind = 3;
    const auto c = v.toComplexDouble();
    call.key.push_back(std::bit_cast<uint64_t>(c.imag()));
    bits = std::bit_cast<uint64_t>(c.real());
  } else if (v.isSymInt()) {
    bits = static_cast<uint64_t>(v.toSymInt().guard_int(__FILE__, __LINE__));
  } else if (v.isSymFloat()) {
    kind = 1;
    bits = std::bit_cast<uint64_t>(v.toSymFloat().guard_float(__FILE__, __LINE__));
  } else if (v.isSymBool()) {
    kind = 2;
    bits = v.toSymBool().guard_bool(__FILE__, __LINE__) ? 1 : 0;
  } else {
    TORCH_CHECK_TYPE(false, call.plan->name, ": a number was expected, got ", v.tagKind());
  }
  call.key.push_back(kNumberTag | (kind << 8));
  call.key.push_back(bits);
}

}  // namespace

void Call::clear() {
  plan = nullptr;
  tensors.clear();
  if (!positions.empty()) positions.clear();
  operands.clear();
  key.clear();
  generator.reset();
  lazy_bits = false;
}

bool is_unit_factor(const ArgPlan& plan, const c10::IValue& value) {
  if (!plan.is_factor) return false;
  return (value.isInt() && value.toInt() == 1) || (value.isDouble() && value.toDouble() == 1.0);
}

void gather(const OpPlan& plan, const c10::IValue* args, Call& call) {
  call.clear();
  call.plan = &plan;
  call.args = args;
  call.device = -1;
  call.key.push_back(settings_word());
  const size_t n = plan.args.size();
  for (size_t i = 0; i < n; ++i) {
    const ArgPlan& a = plan.args[i];
    const c10::IValue& v = args[i];
    const auto arg = static_cast<int>(i);
    if (v.isNone()) {
      call.key.push_back(kNone);
      continue;
    }
    switch (a.kind) {
      case ArgKind::kTensor: {
        const at::Tensor& t = v.toTensor();
        if (t.defined()) {
          add_tensor(call, t, arg, a.mutated);
        } else {
          call.key.push_back(kNone);
        }
        break;
      }
      case ArgKind::kTensorList:
      case ArgKind::kOptionalTensorList: {
        const auto list = v.toListRef();
        call.key.push_back(kListTag | (static_cast<uint64_t>(list.size()) << 8));
        for (const c10::IValue& item : list) {
          if (item.isTensor() && item.toTensor().defined()) {
            add_tensor(call, item.toTensor(), arg, a.mutated);
          } else {
            call.key.push_back(kNone);
          }
        }
        break;
      }
      case ArgKind::kNumber:
      case ArgKind::kDType:
        add_number(call, v);
        break;
      case ArgKind::kOperand: {
        if (is_unit_factor(a, v)) {
          add_number(call, v);
          break;
        }
        OperandArgument operand;
        operand.value = v.toScalar();
        operand.arg = arg;
        add_operand(call, std::move(operand), kOperandTag);
        break;
      }
      case ArgKind::kOperandList: {
        const auto list = v.toListRef();
        call.key.push_back(kListTag | (static_cast<uint64_t>(list.size()) << 8));
        for (const c10::IValue& item : list) {
          OperandArgument operand;
          operand.value = item.toScalar();
          operand.arg = arg;
          add_operand(call, std::move(operand), kOperandTag);
        }
        break;
      }
      case ArgKind::kIntList: {
        if (v.isInt()) {
          call.key.push_back(kIntsTag | (1u << 8));
          call.key.push_back(static_cast<uint64_t>(v.toInt()));
          break;
        }
        const auto list = v.toListRef();
        call.key.push_back(kIntsTag | (static_cast<uint64_t>(list.size()) << 8));
        for (const c10::IValue& item : list) {
          call.key.push_back(static_cast<uint64_t>(
              item.isInt()    ? item.toInt()
              : item.isBool() ? item.toBool()
                              : item.toSymInt().guard_int(__FILE__, __LINE__)));
        }
        break;
      }
      case ArgKind::kDoubleList: {
        const auto list = v.toListRef();
        call.key.push_back(kDoublesTag | (static_cast<uint64_t>(list.size()) << 8));
        for (const c10::IValue& item : list)
          call.key.push_back(std::bit_cast<uint64_t>(item.toDouble()));
        break;
      }
      case ArgKind::kScalarList: {
        const auto list = v.toListRef();
        call.key.push_back(kListTag | (static_cast<uint64_t>(list.size()) << 8));
        for (const c10::IValue& item : list) add_number(call, item);
        break;
      }
      case ArgKind::kString: {
        const std::string_view text = v.toStringView();
        call.key.push_back(kStringTag | (static_cast<uint64_t>(text.size()) << 8));
        for (char c : text)
          call.key.push_back(static_cast<uint64_t>(static_cast<unsigned char>(c)));
        break;
      }
      case ArgKind::kGenerator:
        call.generator = v.toGenerator();
        break;
      case ArgKind::kDevice:
        if (call.tensors.empty()) {
          const c10::Device device = v.toDevice();
          if (device.is_privateuseone())
            call.device = device.has_index() ? device.index() : current_device();
        }
        break;
      case ArgKind::kIgnored:
        // Layouts and memory formats shape the result's metadata.
        call.key.push_back(kNumberTag | (4u << 8));
        call.key.push_back(v.isInt()    ? static_cast<uint64_t>(v.toInt())
                           : v.isBool() ? v.toBool()
                                        : 0);
        break;
    }
  }
  if (call.device < 0) call.device = current_device();
  call.key[0] |= static_cast<uint64_t>(call.device) << 48;
}

namespace {

runtime::ScalarBits operand_bits(const OperandArgument& operand, DType dtype) {
  if (operand.value.isComplex())
    return runtime::scalar_bits(dtype, std::complex<double>(operand.value.toComplexDouble()));
  if (operand.value.isFloatingPoint())
    return runtime::scalar_bits(dtype, std::complex<double>(operand.value.toDouble()));
  if (operand.value.isBoolean())
    return runtime::scalar_bits(dtype, int64_t{operand.value.toBool()});
  // uint64 values above 2^63 keep their bits.
  if (operand.value.type() == c10::ScalarType::UInt64) {
    return runtime::scalar_bits(dtype, static_cast<int64_t>(operand.value.toUInt64()));
  }
  return runtime::scalar_bits(dtype, operand.value.toLong());
}

}  // namespace

void run(const Entry& entry, Call& call, std::vector<at::Tensor>& results) {
  runtime::Device& device = runtime::Runtime::get().device(call.device);
  results.reserve(entry.results.size());
  for (const TensorSpec& spec : entry.results) {
    if (spec.alias >= 0) {
      const at::Tensor& base = *call.tensors[static_cast<size_t>(spec.alias)].tensor;
      at::Tensor view = make_tensor(
          spec, c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
                    base.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl()));
      view.unsafeGetTensorImpl()->set_storage_offset(spec.offset);
      results.push_back(std::move(view));
    } else if (spec.defined) {
      results.push_back(make_tensor(spec, call.device));
    } else {
      results.emplace_back();
    }
  }
  if (!entry.program) return;
  thread_local runtime::Launch launch;
  // A call that fails must not keep its tensors alive here.
  const std::unique_ptr<runtime::Launch, void (*)(runtime::Launch*)> cleared(
      &launch, [](runtime::Launch* l) { l->clear(); });
  launch.program = entry.program;
  launch.origin = entry.origin;
  for (const Entry::Input& input : entry.inputs) {
    switch (input.kind) {
      case Entry::Input::Kind::kTensor:
        launch.inputs.push_back(std::move(call.tensors[input.index].buffer));
        break;
      case Entry::Input::Kind::kOperand:
        launch.inputs.push_back(
            runtime::scalar_buffer(operand_bits(call.operands[input.index], input.dtype), device));
        break;
      case Entry::Input::Kind::kRandom: {
        const RandomState state = reserve_random(call.generator, call.device, entry.random_blocks);
        const uint64_t words[2] = {state.seed, state.offset};
        static const TensorType* const type = runtime::intern_type({DType::kU64, {2}});
        launch.inputs.push_back(runtime::Runtime::get().to_device(words, type, device));
        break;
      }
      case Entry::Input::Kind::kCaptured:
        launch.inputs.push_back(entry.captured[input.index]);
        break;
    }
  }
  launch.reserved = entry.output_bytes;
  for (const auto& [input, tensor] : entry.donations) {
    launch.donations.push_back(input);
    launch.reserved -= launch.inputs[input]->bytes();
  }
  device.reserve(launch.reserved);
  for (const Entry::Output& output : entry.outputs)
    launch.outputs.push_back(std::make_shared<runtime::Buffer>(output.type, device, entry.origin));
  // References of this call would make the launch spare values that it may overwrite.
  for (TensorArgument& t : call.tensors) t.buffer.reset();
  const bool blocking = global_settings().launch_blocking.load(std::memory_order_relaxed);
  std::vector<runtime::BufferRef> awaited;
  if (blocking) [[unlikely]]
    awaited = launch.outputs;
  device.queue().push(launch, [&] {
    for (size_t i = 0; i < entry.outputs.size(); ++i) {
      const Entry::Output& output = entry.outputs[i];
      Cell* cell = output.tensor >= 0 ? call.tensors[static_cast<size_t>(output.tensor)].cell
                                      : cell_of(results[static_cast<size_t>(output.result)]);
      cell->set(launch.outputs[i]);
    }
  });
  for (const runtime::BufferRef& buffer : awaited) {
    try {
      buffer->await();
    } catch (const Error& error) {
      const std::string location = python_location();
      if (location.empty()) throw;
      throw error.with_context(location);
    }
  }
}

namespace {

// Autograd's kernels bump the versions of tensors written in place, but not of those in lists.
void bump_listed_versions(const OpPlan& plan, const torch::jit::Stack& stack) {
  const c10::IValue* args = stack.data() + (stack.size() - plan.args.size());
  for (size_t i = 0; i < plan.args.size(); ++i) {
    if (!plan.args[i].mutated || plan.args[i].kind != ArgKind::kTensorList || plan.args[i].is_out)
      continue;
    for (const c10::IValue& item : args[i].toListRef()) {
      const at::Tensor& t = item.toTensor();
      if (t.defined() && !t.is_inference()) t.unsafeGetTensorImpl()->bump_version();
    }
  }
}

}  // namespace

void push_returns(const Entry& entry, const OpPlan& plan, std::vector<at::Tensor>& results,
                  torch::jit::Stack& stack) {
  if (plan.mutates_list) bump_listed_versions(plan, stack);
  const size_t num_args = plan.args.size();
  if (entry.returns.size() == 1 && entry.returns[0].alias < 0 && !entry.returns[0].is_list &&
      !entry.returns[0].is_constant) {
    torch::jit::drop(stack, num_args);
    stack.emplace_back(std::move(results[0]));
    return;
  }
  c10::SmallVector<c10::IValue, 4> values;
  const c10::IValue* args = stack.data() + (stack.size() - num_args);
  for (const Entry::Return& r : entry.returns) {
    if (r.alias >= 0) {
      values.push_back(args[r.alias]);
    } else if (r.is_constant) {
      values.push_back(r.constant);
    } else if (r.is_list) {
      c10::List<at::Tensor> list;
      for (uint32_t k = 0; k < r.count; ++k) list.push_back(std::move(results[r.first + k]));
      values.emplace_back(std::move(list));
    } else {
      values.emplace_back(std::move(results[r.first]));
    }
  }
  torch::jit::drop(stack, num_args);
  for (auto& v : values) stack.push_back(std::move(v));
}

std::string describe(const Call& call) {
  std::string out = call.plan->name + "(";
  for (size_t i = 0; i < call.tensors.size(); ++i) {
    const at::Tensor& t = *call.tensors[i].tensor;
    if (i != 0) out += ", ";
    if (i == 8) return out + "... " + std::to_string(call.tensors.size()) + " tensors)";
    out += c10::getDtypeNames(t.scalar_type()).first;
    out += "[";
    for (int64_t d = 0; d < t.dim(); ++d) out += (d == 0 ? "" : ", ") + std::to_string(t.size(d));
    out += "]";
  }
  return out + ")";
}

}  // namespace torch_tpu::eager
