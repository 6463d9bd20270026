#include "cache/fleet_tier.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "base/concat.h"
#include "cache/entry.h"
#include "cache/warn_once.h"

namespace torch_tpu::cache {
namespace {

std::string store_name(const Key& key) {
  const std::string hex = key.hex();
  return concat("v", kEntryVersion, '/', hex.substr(0, 2), '/', hex);
}

struct Read {
  bool done = false;
  std::optional<std::string> bytes;
  std::string error;
};

struct Write {
  Key key;
  std::shared_ptr<const std::string> encoded;
};

}  // namespace

// Owned by the tier and by every thread that calls the store: one that never comes back must find
// this in place.
struct FleetTier::Shared {
  FleetStore store;
  Options options;
  mutable std::mutex mutex;
  std::condition_variable changed;
  FleetStats stats;
  int failures = 0;  // in a row
  int calls = 0;     // of the store, under way
  std::deque<Write> writes;
  int64_t waiting_bytes = 0;
  bool writer_runs = false;

  // With the mutex held, both.
  void succeeded() { failures = 0; }
  void failed(std::string_view what) {
    ++stats.failures;
    warn_once("fleet",
              concat("the store of the fleet tier (TORCH_TPU_TIER3_COMPILATION_CACHE_ROOT) ", what,
                     "; going on without"));
    if (++failures < options.failures_in_a_row || !stats.on) return;
    switch_off();
    warn_once("fleet off", concat("the fleet tier is switched off for this process after ",
                                  failures, " failures in a row"));
  }
  void switch_off() {
    stats.on = false;
    stats.dropped += static_cast<int64_t>(writes.size());
    writes.clear();
    waiting_bytes = 0;
  }
};

namespace {

// The message of what `action` throws; empty when it doesn't.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
    return "";
  } catch (const std::exception& error) {
    const std::string message = error.what();
    return message.empty() ? "unknown error" : message;
  }
}

}  // namespace

FleetTier::FleetTier(FleetStore store, Options options) : shared_(std::make_shared<Shared>()) {
  shared_->store = std::move(store);
  shared_->options = options;
}

FleetTier::~FleetTier() { close(std::chrono::milliseconds(0)); }

std::optional<std::string> FleetTier::read(const Key& key) {
  const auto read = std::make_shared<Read>();
  {
    std::lock_guard lock(shared_->mutex);
    if (!shared_->stats.on) return std::nullopt;
    ++shared_->stats.reads;
    ++shared_->calls;
  }
  // A thread for each: one that is stuck holds up nobody, and there can be only as many stuck ones
  // as there are failures before the tier is switched off.
  const auto call = [shared = shared_, read, name = store_name(key)] {
    std::optional<std::string> bytes;
    std::string error = error_of([&] { bytes = shared->store.read(name); });
    std::lock_guard lock(shared->mutex);
    read->done = true;
    read->bytes = std::move(bytes);
    read->error = std::move(error);
    --shared->calls;
    shared->changed.notify_all();
  };
  try {
    std::thread(call).detach();
  } catch (const std::exception&) {  // no thread to be had
    std::lock_guard lock(shared_->mutex);
    --shared_->calls;
    ++shared_->stats.misses;
    return std::nullopt;
  }

  std::unique_lock lock(shared_->mutex);
  FleetStats& stats = shared_->stats;
  const bool in_time = shared_->changed.wait_for(lock, shared_->options.read_limit,
                                                 [&] { return read->done || !stats.on; });
  if (!in_time) {
    ++stats.misses;
    ++stats.timeouts;
    shared_->failed(concat("took more than ", shared_->options.read_limit.count() / 1000.0, " s"));
    return std::nullopt;
  }
  if (!read->error.empty()) {
    ++stats.misses;
    shared_->failed(concat("failed to read: ", read->error));
    return std::nullopt;
  }
  if (!read->bytes) {
    ++stats.misses;
    if (read->done) shared_->succeeded();
    return std::nullopt;
  }
  std::string bytes = std::move(*read->bytes);
  lock.unlock();
  const EntryState state = decode_entry(bytes, key).state;
  lock.lock();
  if (state != EntryState::kGood) {
    ++stats.misses;
    ++stats.damaged;
    shared_->failed(concat("gave an entry that is ", entry_state_name(state)));
    return std::nullopt;
  }
  ++stats.hits;
  stats.bytes_read += static_cast<int64_t>(bytes.size());
  shared_->succeeded();
  return bytes;
}

void FleetTier::refused(const Key& key) {
  std::lock_guard lock(shared_->mutex);
  ++shared_->stats.damaged;
  shared_->failed(concat("gave entry ", key.hex(), ", which the plugin refuses"));
}

void FleetTier::write(const Key& key, std::shared_ptr<const std::string> encoded) {
  std::lock_guard lock(shared_->mutex);
  const auto size = static_cast<int64_t>(encoded->size());
  if (!shared_->stats.on || shared_->waiting_bytes + size > shared_->options.max_waiting_bytes) {
    ++shared_->stats.dropped;
    return;
  }
  shared_->writes.push_back({key, std::move(encoded)});
  shared_->waiting_bytes += size;
  if (shared_->writer_runs) return;
  // Ends when nothing is left to write: a process that compiles nothing has no such thread.
  const auto run = [shared = shared_] {
    std::unique_lock lock(shared->mutex);
    while (!shared->writes.empty()) {
      const Write write = std::move(shared->writes.front());
      shared->writes.pop_front();
      const auto size = static_cast<int64_t>(write.encoded->size());
      shared->waiting_bytes -= size;
      ++shared->calls;
      lock.unlock();
      const std::string error =
          error_of([&] { shared->store.write(store_name(write.key), *write.encoded); });
      lock.lock();
      --shared->calls;
      if (error.empty()) {
        ++shared->stats.writes;
        shared->stats.bytes_written += size;
        shared->succeeded();
      } else {
        shared->failed(concat("failed to write: ", error));
      }
      shared->changed.notify_all();
    }
    shared->writer_runs = false;
    shared->changed.notify_all();
  };
  try {
    std::thread(run).detach();
    shared_->writer_runs = true;
  } catch (const std::exception&) {
    shared_->switch_off();
  }
}

bool FleetTier::flush(std::chrono::milliseconds limit) {
  std::unique_lock lock(shared_->mutex);
  return shared_->changed.wait_for(lock, limit, [&] { return !shared_->writer_runs; });
}

void FleetTier::close(std::chrono::milliseconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  flush(limit);
  std::unique_lock lock(shared_->mutex);
  shared_->switch_off();
  shared_->changed.notify_all();
  shared_->changed.wait_until(lock, deadline,
                              [&] { return shared_->calls == 0 && !shared_->writer_runs; });
}

FleetStats FleetTier::stats() const {
  std::lock_guard lock(shared_->mutex);
  return shared_->stats;
}

}  // namespace torch_tpu::cache
