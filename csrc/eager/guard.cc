#include <c10/core/ScalarType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <memory>

#include "eager/device_index.h"
#include "eager/scalar_type.h"
#include "eager/stream_event.h"
#include "eager/synchronize.h"
#include "runtime/runtime.h"

namespace torch_tpu::eager {
namespace {

constexpr c10::DeviceType kTpu = c10::DeviceType::PrivateUse1;

int checked_index(c10::Device device) {
  TORCH_CHECK(device.type() == kTpu, "expected a tpu device, got ", device);
  if (!device.has_index()) return current_device();
  const int count = runtime::Runtime::device_count();
  TORCH_CHECK(device.index() >= 0 && device.index() < count, "TPU error: invalid device ordinal ",
              static_cast<int>(device.index()), ": there ", count == 1 ? "is " : "are ", count,
              count == 1 ? " device" : " devices");
  return device.index();
}

c10::Device device_at(int index) { return c10::Device(kTpu, static_cast<c10::DeviceIndex>(index)); }

// Nothing here starts the client, except by waiting for work that has.
class GuardImpl final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kTpu; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override { return device_at(current_device()); }
  void setDevice(c10::Device device) const override { set_current_device(checked_index(device)); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) set_current_device(device.index());
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    return static_cast<c10::DeviceIndex>(runtime::Runtime::device_count());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = 0;
#define TT_CAPABILITY(ctype, name)                               \
  capability.capability_data.supported_scalar_types.has_##name = \
      has_dtype(c10::ScalarType::name) ? 1 : 0;
    AT_FORALL_SCALAR_TYPES_WITH_COMPLEX_AND_QINTS(TT_CAPABILITY)
#undef TT_CAPABILITY
    return capability;
  }

  c10::Stream getStream(c10::Device device) const override {
    return current_stream(checked_index(device));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return default_stream(checked_index(device));
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return pooled_stream(checked_index(device));
  }
  c10::Stream getNewStream(c10::Device device, int) const override {
    return new_stream(checked_index(device));
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return exchange_current_stream(stream);
  }
  void* getStreamNativeHandle(const c10::Stream) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "tpu streams have no native handle");
  }
  bool queryStream(const c10::Stream& stream) const override { return stream_is_idle(stream); }
  void synchronizeStream(const c10::Stream& stream) const override {
    synchronizeDevice(stream.device_index());
  }
  void synchronizeDevice(const c10::DeviceIndex index) const override {
    if (runtime::Runtime::started()) synchronize_device(checked_index(device_at(index)));
  }
  // A buffer lives as long as work that reads it: nothing to note.
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ",
                static_cast<int>(index), " does not match recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    if (*event == nullptr) {
      *event =
          std::make_unique<Event>(stream.device_index(), flag == c10::EventFlag::BACKEND_DEFAULT)
              .release();
    }
    static_cast<Event*>(*event)->record();
  }
  // The order of the device already is what `stream` should wait for; another device's work isn't.
  void block(void* event, const c10::Stream& stream) const override {
    auto* e = static_cast<Event*>(event);
    if (e != nullptr && e->device() != stream.device_index()) e->synchronize();
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || static_cast<Event*>(event)->query();
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) static_cast<Event*>(event)->synchronize();
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    const std::unique_ptr<Event> owner(static_cast<Event*>(event));
  }
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr,
                "Both events must be recorded before calculating elapsed time.");
    return static_cast<Event*>(start)->elapsed_milliseconds(*static_cast<Event*>(end));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl)

}  // namespace
}  // namespace torch_tpu::eager
