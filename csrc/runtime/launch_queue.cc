#include "runtime/launch_queue.h"

#include <algorithm>
#include <chrono>

#include "base/log.h"
#include "runtime/program.h"
#include "runtime/runtime.h"

namespace torch_tpu::runtime {
namespace {

// How long the thread looks for the next launch before it sleeps: waking it costs the pushing
// thread a system call.
constexpr auto kSpin = std::chrono::microseconds(50);

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

bool may_spin() {
  static const bool several = std::thread::hardware_concurrency() > 1;
  return several;
}

}  // namespace

void Launch::clear() {
  program.reset();
  action = nullptr;
  inputs.clear();
  outputs.clear();
  donations.clear();
  origin = nullptr;
  reserved = 0;
}

std::unique_lock<std::mutex> LaunchQueue::lock_with_room() {
  for (;;) {
    std::unique_lock lock(push_mutex_);
    const uint64_t index = tail_.load(std::memory_order_relaxed);
    if (index - head_.load(std::memory_order_acquire) < kCapacity) [[likely]] {
      if (slots_.empty()) {
        slots_.resize(kCapacity);
        if (!stopped_.load()) thread_ = std::thread([this] { thread_main(); });
      }
      return lock;
    }
    lock.unlock();
    wait(index - kCapacity + kCapacity / 8);
  }
}

void LaunchQueue::publish(Launch& launch, uint64_t index) {
  reserved_.fetch_add(launch.reserved, std::memory_order_relaxed);
  std::swap(slots_[index & (kCapacity - 1)], launch);
  tail_.store(index + 1, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst)) wake();
}

uint64_t LaunchQueue::push_action(std::function<void()> action) {
  Launch launch;
  launch.action = std::move(action);
  return push(launch, [] {});
}

void LaunchQueue::wake() {
  std::lock_guard lock(sleep_mutex_);
  wake_.notify_one();
}

void LaunchQueue::wait(uint64_t ticket) {
  if (head_.load(std::memory_order_acquire) >= ticket) return;
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  {
    // Most launches are over in less time than a sleep takes.
    std::unique_lock lock(run_mutex_, std::try_to_lock);
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (!lock.owns_lock() && may_spin() && std::chrono::steady_clock::now() < end) {
      for (int i = 0; i < 16; ++i) relax();
      static_cast<void>(lock.try_lock());
    }
    if (!lock.owns_lock()) lock.lock();
    while (head_.load(std::memory_order_relaxed) < ticket) run_front();
  }
  if (waiters_.fetch_sub(1, std::memory_order_seq_cst) == 1 && !idle()) wake();
}

void LaunchQueue::run_front() {
  const uint64_t index = head_.load(std::memory_order_relaxed);
  Launch& launch = slots_[index & (kCapacity - 1)];
  reserved_.fetch_sub(launch.reserved, std::memory_order_relaxed);
  try {
    if (launch.program) {
      execute(launch);
    } else if (launch.action) {
      launch.action();
    }
  } catch (const Error& error) {
    fail_outputs(launch, error);
  } catch (const std::exception& error) {
    fail_outputs(launch, Error(ErrorKind::kInternal, error.what()));
  }
  launch.clear();
  head_.store(index + 1, std::memory_order_release);
}

void LaunchQueue::execute(Launch& launch) {
  raw_inputs_.clear();
  for (const BufferRef& input : launch.inputs) {
    input->throw_if_failed();
    raw_inputs_.push_back(input->raw());
  }
  const pjrt::LoadedExecutable& executable = launch.program->executable();
  // Whatever else holds the old value still needs it.
  shared_.clear();
  std::erase_if(launch.donations, [&](uint32_t i) {
    const bool shared = launch.inputs[i].use_count() > 1;
    if (shared) shared_.push_back(i);
    return shared;
  });
  std::atomic_thread_fence(std::memory_order_acquire);
  raw_outputs_.resize(launch.outputs.size());
  executable.execute(raw_inputs_.data(), raw_inputs_.size(), raw_outputs_.data(), device_.raw(),
                     shared_);
  for (const uint32_t i : launch.donations) launch.inputs[i]->donated();
  for (size_t i = 0; i < launch.outputs.size(); ++i)
    launch.outputs[i]->fulfil(pjrt::Buffer(executable.api(), raw_outputs_[i]));
}

// An error that comes from an input has its call's name already.
void LaunchQueue::fail_outputs(Launch& launch, const Error& error) {
  const bool inherited =
      std::ranges::any_of(launch.inputs, [](const BufferRef& input) { return input->failed(); });
  const Error named =
      inherited || launch.origin == nullptr ? error : error.with_context(*launch.origin);
  for (const BufferRef& output : launch.outputs) {
    if (!output->launched()) output->fail(named);
  }
}

void LaunchQueue::thread_main() {
  while (!stopped_.load(std::memory_order_relaxed)) {
    if (!idle() && waiters_.load(std::memory_order_seq_cst) == 0) {
      std::lock_guard lock(run_mutex_);
      while (!idle() && waiters_.load(std::memory_order_relaxed) == 0 &&
             !stopped_.load(std::memory_order_relaxed)) {
        run_front();
      }
      continue;
    }
    // A thread that waits for a launch runs it itself: nothing to do here until it is through.
    auto nothing_to_do = [this] {
      return !stopped_.load() && (idle() || waiters_.load(std::memory_order_seq_cst) > 0);
    };
    if (may_spin() && waiters_.load() == 0) {
      const auto end = std::chrono::steady_clock::now() + kSpin;
      while (nothing_to_do() && std::chrono::steady_clock::now() < end) {
        for (int i = 0; i < 16; ++i) relax();
      }
    }
    std::unique_lock lock(sleep_mutex_);
    asleep_.store(true, std::memory_order_seq_cst);
    wake_.wait(lock, [&] { return !nothing_to_do(); });
    asleep_.store(false, std::memory_order_seq_cst);
  }
}

void LaunchQueue::stop() {
  std::lock_guard lock(push_mutex_);
  stopped_.store(true);
  wake();
  if (thread_.joinable()) thread_.join();
}

}  // namespace torch_tpu::runtime
