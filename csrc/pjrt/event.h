#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "pjrt/api.h"
#include "pjrt_c_api.h"

namespace torch_tpu::pjrt {

// Owns a PJRT_Event: the end of a transfer or an execution, or its failure. May be empty, which
// counts as ready. Must go before the client it came from.
class Event {
 public:
  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* adopted) : api_(api), raw_(adopted) {}
  Event(Event&& other) noexcept : api_(other.api_), raw_(std::exchange(other.raw_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      raw_ = std::exchange(other.raw_, nullptr);
    }
    return *this;
  }
  ~Event() { reset(); }

  explicit operator bool() const { return raw_ != nullptr; }
  PJRT_Event* raw() const { return raw_; }
  PJRT_Event* release() { return std::exchange(raw_, nullptr); }

  // Waits; throws the failure.
  void await() const {
    if (raw_ == nullptr) return;
    TT_PJRT_ARGS(PJRT_Event_Await, args);
    args.event = raw_;
    raise_if(api_, api_->PJRT_Event_Await(&args), "asynchronous work failed");
  }

  bool is_ready() const {
    if (raw_ == nullptr) return true;
    TT_PJRT_ARGS(PJRT_Event_IsReady, args);
    args.event = raw_;
    raise_if(api_, api_->PJRT_Event_IsReady(&args), "query of an event");
    return args.is_ready;
  }

  // The failure, if the event is ready and failed. Never waits.
  std::optional<Error> error() const;

  // Calls back with null or the failure, on a thread of the plugin's choice or at once; the event
  // itself may be gone by then. What the callback throws is logged and dropped.
  void on_ready(std::function<void(const Error* failure)> callback) const;

 private:
  void reset() noexcept {
    if (raw_ == nullptr) return;
    TT_PJRT_ARGS(PJRT_Event_Destroy, args);
    args.event = std::exchange(raw_, nullptr);
    if (PJRT_Error* error = api_->PJRT_Event_Destroy(&args)) [[unlikely]]
      drop_error(api_, error, "destruction of an event");
  }

  const PJRT_Api* api_ = nullptr;
  PJRT_Event* raw_ = nullptr;
};

}  // namespace torch_tpu::pjrt
