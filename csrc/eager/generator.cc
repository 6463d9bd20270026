#include "eager/generator.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Utils.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/GeneratorImpl.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "eager/device_index.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

constexpr int64_t kStateBytes = sizeof(uint64_t) * 2;  // seed, offset

class GeneratorImpl final : public c10::GeneratorImpl {
 public:
  GeneratorImpl(int device, std::shared_ptr<RandomState> state)
      : c10::GeneratorImpl(
            c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device)),
            c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        state_(std::move(state)) {}

  // As elsewhere in PyTorch, callers of the methods below hold mutex_.
  void set_current_seed(uint64_t seed) override { *state_ = {seed, 0}; }
  uint64_t current_seed() const override { return state_->seed; }
  void set_offset(uint64_t offset) override { state_->offset = offset; }
  uint64_t get_offset() const override { return state_->offset; }
  uint64_t seed() override {
    const uint64_t seed = c10::detail::getNonDeterministicRandom();
    set_current_seed(seed);
    return seed;
  }

  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    at::Tensor state =
        at::empty({kStateBytes}, at::TensorOptions().dtype(at::kByte).device(at::kCPU));
    auto* bytes = state.mutable_data_ptr<uint8_t>();
    std::memcpy(bytes, &state_->seed, sizeof(uint64_t));
    std::memcpy(bytes + sizeof(uint64_t), &state_->offset, sizeof(uint64_t));
    return state.getIntrusivePtr();
  }
  void set_state(const c10::TensorImpl& new_state) override {
    at::detail::check_rng_state(new_state);
    TORCH_CHECK(new_state.numel() == kStateBytes, "RNG state is wrong size: expected ", kStateBytes,
                " bytes (seed and offset), got ", new_state.numel());
    const auto* bytes = static_cast<const uint8_t*>(new_state.data());
    std::memcpy(&state_->seed, bytes, sizeof(uint64_t));
    std::memcpy(&state_->offset, bytes + sizeof(uint64_t), sizeof(uint64_t));
  }

  // The state itself rather than a copy: generators that share it advance together.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override {
    return c10::make_intrusive<GeneratorImpl>(device().index(), state_);
  }
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override {
    auto tpu = c10::dynamic_intrusive_pointer_cast<GeneratorImpl>(other);
    TORCH_CHECK(tpu, "graphsafe_set_state: expected a tpu generator");
    state_ = tpu->state_;
  }

  RandomState reserve(int64_t blocks) {
    const std::lock_guard lock(mutex_);
    const RandomState before = *state_;
    state_->offset += static_cast<uint64_t>(blocks);
    return before;
  }

 private:
  GeneratorImpl* clone_impl() const override {
    return std::make_unique<GeneratorImpl>(device().index(), std::make_shared<RandomState>(*state_))
        .release();
  }

  std::shared_ptr<RandomState> state_;
};

}  // namespace

at::Generator make_generator(int device) {
  if (device < 0) device = current_device();
  TORCH_CHECK(device < runtime::Runtime::device_count(), "TPU error: invalid device ordinal ",
              device, ": there are ", runtime::Runtime::device_count(), " devices");
  return at::make_generator<GeneratorImpl>(
      device, std::make_shared<RandomState>(RandomState{c10::default_rng_seed_val, 0}));
}

const at::Generator& default_generator(int device) {
  static const auto* generators = [] {
    auto all = std::make_unique<std::vector<at::Generator>>();
    for (int i = 0; i < runtime::Runtime::device_count(); ++i) all->push_back(make_generator(i));
    return all.release();  // outlives static destruction
  }();
  if (device < 0) device = current_device();
  TORCH_CHECK(static_cast<size_t>(device) < generators->size(),
              "TPU error: invalid device ordinal ", device, ": there are ", generators->size(),
              " devices");
  return (*generators)[static_cast<size_t>(device)];
}

RandomState reserve_random(const std::optional<at::Generator>& generator, int device,
                           int64_t blocks) {
  const at::Generator& g =
      generator && generator->defined() ? *generator : default_generator(device);
  TORCH_CHECK(g.device().type() == c10::DeviceType::PrivateUse1,
              "Expected a 'tpu' device type for generator but found '", g.device().type(), "'");
  TORCH_CHECK(g.device().index() == device, "Expected a 'tpu:", device,
              "' generator device but found '", g.device(), "'");
  return static_cast<GeneratorImpl*>(g.unsafeGetGeneratorImpl())->reserve(blocks);
}

}  // namespace torch_tpu::eager
