#include "cache/cache.h"

#include <chrono>
#include <exception>

#include "base/concat.h"
#include "base/log.h"
#include "cache/warn_once.h"

namespace torch_tpu::cache {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

std::string_view source_name(Source source) {
  switch (source) {
    case Source::kHost:
      return "host";
    case Source::kFleet:
      return "fleet";
    case Source::kThread:
      return "thread";
    case Source::kCompiled:
      return "compiled";
  }
  return "unknown";
}

CompilingForbidden::CompilingForbidden(std::string_view program)
    : Error(ErrorKind::kUnavailable,
            concat(program,
                   " is in no tier of the compilation cache, and compiling is forbidden "
                   "(torch.tpu.cache.cache_only)")) {}

// A program on its way: whoever asks for it meanwhile waits here.
struct Cache::Flight {
  std::condition_variable over;
  bool done = false;
  std::shared_ptr<const std::string> encoded;  // null when it failed or can't be serialised
};

class Cache::Pilot {
 public:
  Pilot(Cache& cache, const Key& key, std::shared_ptr<Flight> flight)
      : cache_(cache), key_(key), flight_(std::move(flight)) {}
  Pilot(const Pilot&) = delete;
  void brings(std::shared_ptr<const std::string> encoded) { encoded_ = std::move(encoded); }
  ~Pilot() {
    std::lock_guard lock(cache_.mutex_);
    flight_->done = true;
    flight_->encoded = std::move(encoded_);
    cache_.flights_.erase(key_);
    flight_->over.notify_all();
  }

 private:
  Cache& cache_;
  const Key key_;
  std::shared_ptr<Flight> flight_;
  std::shared_ptr<const std::string> encoded_;
};

Source Cache::load_or_compile(const Key& key, std::string_view name, const Work& work) {
  count([](CacheStats& s) { ++s.requests; });
  if (!enabled_) {
    compile(name, work);
    return Source::kCompiled;
  }
  if (load_from_host(key, work)) return Source::kHost;

  std::shared_ptr<Flight> flight;
  {
    std::unique_lock lock(mutex_);
    while (true) {
      auto [found, is_new] = flights_.try_emplace(key);
      if (is_new) {
        flight = found->second = std::make_shared<Flight>();
        break;
      }
      const std::shared_ptr<Flight> other = found->second;
      other->over.wait(lock, [&] { return other->done; });
      if (!other->encoded) continue;  // it failed, and so may we: that is for each to find out
      lock.unlock();
      const bool loaded = try_load(work, payload_of(*other->encoded));
      lock.lock();
      if (loaded) {
        ++stats_.thread_hits;
        return Source::kThread;
      }
    }
  }
  Pilot pilot(*this, key, flight);
  std::unique_ptr<KeyLock> lock;
  if (host_) {
    lock = host_->lock(key);
    // Whoever had the lock before us has stored it by now.
    if (load_from_host(key, work)) return Source::kHost;
  }
  if (load_from_fleet(key, work)) return Source::kFleet;
  compile(name, work);
  const std::shared_ptr<const std::string> encoded = encode(key, name, work);
  if (encoded) {
    if (host_) host_->write(key, *encoded);
    if (const auto far = fleet()) far->write(key, encoded);
  }
  pilot.brings(encoded);
  return Source::kCompiled;
}

bool Cache::try_load(const Work& work, std::string_view payload) {
  const Stopwatch watch;
  try {
    work.load(payload);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kOutOfMemory) throw;
    TT_LOG(kInfo, "compilation cache: the plugin refuses an entry: ", error.what());
    count([](CacheStats& s) { ++s.refused; });
    return false;
  }
  count([&](CacheStats& s) { s.load_seconds += watch.seconds(); });
  return true;
}

bool Cache::load_from_host(const Key& key, const Work& work) {
  if (!host_) return false;
  const std::optional<std::string> encoded = host_->read(key);
  if (!encoded) return false;
  if (!try_load(work, payload_of(*encoded))) {
    host_->set_aside(key, "can't be loaded by the plugin");
    return false;
  }
  count([](CacheStats& s) { ++s.host_hits; });
  return true;
}

bool Cache::load_from_fleet(const Key& key, const Work& work) {
  const std::shared_ptr<FleetTier> far = fleet();
  if (!far) return false;
  const std::optional<std::string> encoded = far->read(key);
  if (!encoded) return false;
  if (!try_load(work, payload_of(*encoded))) {
    far->refused(key);
    return false;
  }
  if (host_) host_->write(key, *encoded);
  count([](CacheStats& s) { ++s.fleet_hits; });
  return true;
}

void Cache::compile(std::string_view name, const Work& work) {
  if (compiling_is_forbidden()) {
    count([](CacheStats& s) { ++s.forbidden; });
    throw CompilingForbidden(name);
  }
  const Stopwatch watch;
  work.compile();
  count([&](CacheStats& s) {
    ++s.compilations;
    s.compile_seconds += watch.seconds();
  });
}

std::shared_ptr<const std::string> Cache::encode(const Key& key, std::string_view name,
                                                 const Work& work) {
  try {
    return std::make_shared<const std::string>(
        encode_entry({key, EntryKind::kProgram, name, origin(), work.serialize()}));
  } catch (const std::exception& error) {
    warn_once("serialize", concat("programs can't be stored: ", error.what()));
    return nullptr;
  }
}

std::optional<std::string> Cache::find(const Key& key) {
  if (!enabled_) return std::nullopt;
  if (host_) {
    if (const auto encoded = host_->read(key)) return std::string(payload_of(*encoded));
  }
  if (const auto far = fleet()) {
    if (const auto encoded = far->read(key)) {
      if (host_) host_->write(key, *encoded);
      return std::string(payload_of(*encoded));
    }
  }
  return std::nullopt;
}

void Cache::store(const Key& key, EntryKind kind, std::string_view name, std::string_view payload) {
  if (!enabled_) return;
  const auto encoded =
      std::make_shared<const std::string>(encode_entry({key, kind, name, origin(), payload}));
  if (host_) host_->write(key, *encoded);
  if (const auto far = fleet()) far->write(key, encoded);
}

void Cache::set_origin(std::string origin) {
  std::lock_guard lock(mutex_);
  origin_ = std::move(origin);
}

std::string Cache::origin() const {
  std::lock_guard lock(mutex_);
  return origin_;
}

void Cache::set_fleet(std::shared_ptr<FleetTier> fleet) {
  std::lock_guard lock(mutex_);
  fleet_.swap(fleet);
}

std::shared_ptr<FleetTier> Cache::fleet() const {
  std::lock_guard lock(mutex_);
  return fleet_;
}

CacheStats Cache::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace torch_tpu::cache
