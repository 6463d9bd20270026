#include "runtime/compile_threads.h"

#include <utility>

namespace torch_tpu::runtime {

void CompileThreads::push(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    jobs_.push_back(std::move(job));
    if (threads_.size() < count_) threads_.emplace_back([this] { main(); });
  }
  wake_.notify_one();
}

void CompileThreads::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopped_ = true;
    jobs_.clear();
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (std::thread& thread : threads) thread.join();
}

void CompileThreads::main() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
      if (stopped_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace torch_tpu::runtime
