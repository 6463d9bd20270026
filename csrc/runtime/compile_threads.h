#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace torch_tpu::runtime {

// A few threads that take jobs in order. Started by the first job. Jobs must not throw.
class CompileThreads {
 public:
  explicit CompileThreads(size_t count) : count_(count) {}
  CompileThreads(const CompileThreads&) = delete;
  CompileThreads& operator=(const CompileThreads&) = delete;
  ~CompileThreads() { stop(); }

  // After stop(): forgets the job.
  void push(std::function<void()> job);
  // A job for when no other waits.
  void push_idle(std::function<void()> job);
  // Lets running jobs end, forgets the others.
  void stop();

 private:
  void enqueue(std::deque<std::function<void()>>& jobs, std::function<void()> job);
  void main();

  size_t count_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> jobs_, idle_jobs_;
  std::vector<std::thread> threads_;
  bool stopped_ = false;
};

}  // namespace torch_tpu::runtime
