#include "eager/hooks.h"

#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <atomic>
#include <memory>

#include "eager/device_index.h"
#include "eager/generator.h"
#include "eager/pinned_memory.h"
#include "eager/storage.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

constexpr c10::DeviceType kTpu = c10::DeviceType::PrivateUse1;

std::function<bool()>& availability() {
  static auto* f = std::make_unique<std::function<bool()>>().release();
  return *f;
}

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return is_available(); }
  // PyTorch calls this before it pins memory, for instance; the client starts when it is needed.
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return runtime::Runtime::started() && index >= 0 && index < deviceCount();
  }
  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(runtime::Runtime::device_count());
  }
  void setCurrentDevice(c10::DeviceIndex index) const override { guard().setDevice({kTpu, index}); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(current_device());
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    return guard().exchangeDevice({kTpu, index}).index();
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? getCurrentDevice() : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return make_generator(index);
  }

  c10::Device getDeviceFromPtr(void* data) const override {
    const int index = device_of_address(data);
    TORCH_CHECK(index >= 0, "the pointer doesn't belong to a tpu storage");
    return {kTpu, static_cast<c10::DeviceIndex>(index)};
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    translated(
        [&] { resize_storage(*storage.unsafeGetStorageImpl(), static_cast<int64_t>(bytes)); });
  }

 private:
  static c10::impl::VirtualGuardImpl guard() { return c10::impl::VirtualGuardImpl(kTpu); }
};

[[maybe_unused]] const bool registered = [] {
  static auto* hooks = std::make_unique<Hooks>().release();  // PyTorch keeps the pointer for ever
  at::RegisterPrivateUse1HooksInterface(hooks);
  return true;
}();

}  // namespace

void set_availability(std::function<bool()> f) { availability() = std::move(f); }

bool is_available() {
  // Asked twice at worst: a lock here would meet the interpreter's.
  static std::atomic<int> known{-1};
  int result = known.load();
  if (result < 0 && availability()) {
    result = availability()() ? 1 : 0;
    known.store(result);
  }
  return result > 0;
}

}  // namespace torch_tpu::eager
