#include "runtime/compile_threads.h"

#include <utility>

namespace torch_tpu::runtime {

void CompileThreads::push(std::function<void()> job) { enqueue(jobs_, std::move(job)); }

void CompileThreads::push_idle(std::function<void()> job) { enqueue(idle_jobs_, std::move(job)); }

void CompileThreads::enqueue(std::deque<std::function<void()>>& jobs, std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (stopped_) return;
    jobs.push_back(std::move(job));
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
    idle_jobs_.clear();
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
      wake_.wait(lock, [this] { return stopped_ || !jobs_.empty() || !idle_jobs_.empty(); });
      if (stopped_) return;
      auto& jobs = jobs_.empty() ? idle_jobs_ : jobs_;
      job = std::move(jobs.front());
      jobs.pop_front();
    }
    job();
  }
}

}  // namespace torch_tpu::runtime
