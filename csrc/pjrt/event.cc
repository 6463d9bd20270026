#include "pjrt/event.h"

#include <memory>

#include "base/log.h"

namespace torch_tpu::pjrt {
namespace {

using Callback = std::function<void(const Error*)>;

struct PendingCallback {
  const PJRT_Api* api;
  Callback callback;
};

void call(const Callback& callback, const Error* failure) noexcept {
  try {
    callback(failure);
  } catch (const std::exception& error) {
    TT_LOG(kError, "callback of an event threw: ", error.what());
  } catch (...) {
    TT_LOG(kError, "callback of an event threw");
  }
}

void run_pending(PJRT_Error* raw_failure, void* user_arg) noexcept {
  const std::unique_ptr<PendingCallback> pending(static_cast<PendingCallback*>(user_arg));
  if (raw_failure == nullptr) {
    call(pending->callback, nullptr);
  } else {
    const Error failure = take_error(pending->api, raw_failure, "asynchronous work failed");
    call(pending->callback, &failure);
  }
}

}  // namespace

std::optional<Error> Event::error() const {
  if (!is_ready() || raw_ == nullptr) return std::nullopt;
  TT_PJRT_ARGS(PJRT_Event_Error, args);
  args.event = raw_;
  PJRT_Error* failure = api_->PJRT_Event_Error(&args);
  if (failure == nullptr) return std::nullopt;
  return take_error(api_, failure, "asynchronous work failed");
}

void Event::on_ready(Callback callback) const {
  if (raw_ == nullptr) {
    call(callback, nullptr);
    return;
  }
  auto pending = std::make_unique<PendingCallback>(api_, std::move(callback));
  TT_PJRT_ARGS(PJRT_Event_OnReady, args);
  args.event = raw_;
  args.callback = run_pending;
  args.user_arg = pending.get();
  raise_if(api_, api_->PJRT_Event_OnReady(&args), "registration of a callback");
  pending.release();  // run_pending owns it now
}

}  // namespace torch_tpu::pjrt
