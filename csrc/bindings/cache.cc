#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "base/byte_size.h"
#include "bindings/bindings.h"
#include "cache/process_cache.h"
#include "eager/storage.h"
#include "runtime/program.h"

namespace torch_tpu {
namespace {

namespace py = pybind11;
using cache::Cache;
using cache::EntryState;
using cache::HostTier;
using cache::Key;
using cache::process_cache;

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

Key key_from(const std::string& hex) {
  const std::optional<Key> key = Key::from_hex(hex);
  if (!key) throw py::value_error("a key is 64 lower-case hexadecimal digits, not \"" + hex + "\"");
  return *key;
}

Cache& the_cache() {
  Cache* found = nullptr;
  eager::translated([&] { found = &process_cache(); });
  return *found;
}

// Folder and size of the host tier; None where it is off.
py::object host_options() {
  py::object result = py::none();
  eager::translated([&] {
    if (const auto options = cache::host_tier_options())
      result = py::make_tuple(options->folder, options->max_bytes);
  });
  return result;
}

py::dict host_stats(const cache::HostStats& s) {
  py::dict d;
  d["reads"] = s.reads;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["bytes_read"] = s.bytes_read;
  d["writes"] = s.writes;
  d["write_failures"] = s.write_failures;
  d["bytes_written"] = s.bytes_written;
  d["set_aside"] = s.set_aside;
  d["evictions"] = s.evictions;
  d["evicted_bytes"] = s.evicted_bytes;
  d["lock_waits"] = s.lock_waits;
  d["lock_timeouts"] = s.lock_timeouts;
  d["lock_wait_seconds"] = s.lock_wait_seconds;
  return d;
}

py::dict fleet_stats(const cache::FleetStats& s) {
  py::dict d;
  d["on"] = s.on;
  d["reads"] = s.reads;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["failures"] = s.failures;
  d["timeouts"] = s.timeouts;
  d["damaged"] = s.damaged;
  d["bytes_read"] = s.bytes_read;
  d["writes"] = s.writes;
  d["bytes_written"] = s.bytes_written;
  d["dropped"] = s.dropped;
  return d;
}

// "programs", and "host" and "fleet" where there are such tiers.
py::dict cache_stats() {
  Cache& all = the_cache();
  const cache::CacheStats s = all.stats();
  py::dict programs;
  programs["requests"] = s.requests;
  programs["host_hits"] = s.host_hits;
  programs["fleet_hits"] = s.fleet_hits;
  programs["thread_hits"] = s.thread_hits;
  programs["compilations"] = s.compilations;
  programs["refused"] = s.refused;
  programs["forbidden"] = s.forbidden;
  programs["compile_seconds"] = s.compile_seconds;
  programs["load_seconds"] = s.load_seconds;
  py::dict d;
  d["programs"] = programs;
  if (all.host() != nullptr) d["host"] = host_stats(all.host()->stats());
  if (const auto fleet = all.fleet()) d["fleet"] = fleet_stats(fleet->stats());
  return d;
}

// What `call` gives, with Python's errors as C++ exceptions that need no GIL.
template <typename Call>
auto without_python_errors(Call call) {
  py::gil_scoped_acquire gil;
  std::string message;
  try {
    return call();
  } catch (const py::error_already_set& error) {
    message = error.what();
  }
  throw std::runtime_error(message.substr(0, message.find('\n')));
}

void set_fleet(py::function read, py::function write, double read_limit) {
  // Kept for ever: threads of the tier may outlast everything else.
  const py::handle reader = read.release();
  const py::handle writer = write.release();
  cache::FleetStore store;
  store.read = [reader](const std::string& name) {
    return without_python_errors([&]() -> std::optional<std::string> {
      const py::object bytes = reader(name);
      if (bytes.is_none()) return std::nullopt;
      return std::string(py::bytes(bytes));
    });
  };
  store.write = [writer](const std::string& name, const std::string& bytes) {
    without_python_errors([&] {
      writer(name, py::bytes(bytes));
      return true;
    });
  };
  cache::FleetTier::Options options;
  options.read_limit = milliseconds(read_limit);
  the_cache().set_fleet(std::make_shared<cache::FleetTier>(std::move(store), options));
}

bool flush(double seconds) {
  const auto fleet = the_cache().fleet();
  py::gil_scoped_release release;
  return fleet == nullptr || fleet->flush(milliseconds(seconds));
}

void close_fleet(double seconds) {
  const auto fleet = the_cache().fleet();
  py::gil_scoped_release release;
  if (fleet != nullptr) fleet->close(milliseconds(seconds));
}

py::dict to_dict(const cache::HostEntry& entry) {
  py::dict d;
  d["key"] = entry.key.hex();
  d["state"] = entry_state_name(entry.state);
  d["kind"] = entry_kind_name(entry.kind);
  d["name"] = py::str(py::bytes(entry.name).attr("decode")("utf-8", "replace"));
  d["origin"] = py::str(py::bytes(entry.origin).attr("decode")("utf-8", "replace"));
  d["bytes"] = entry.bytes;
  d["written"] = static_cast<double>(entry.written_ns) / 1e9;
  d["used"] = static_cast<double>(entry.used_ns) / 1e9;
  return d;
}

py::list list_entries(HostTier& tier, bool check) {
  std::vector<cache::HostEntry> entries;
  {
    py::gil_scoped_release release;
    entries = tier.list(check);
  }
  py::list result;
  for (const cache::HostEntry& entry : entries) result.append(to_dict(entry));
  return result;
}

py::dict usage(HostTier& tier) {
  const cache::HostUsage u = tier.usage();
  py::dict d;
  d["entries"] = u.entries;
  d["bytes"] = u.bytes;
  d["quarantined"] = u.quarantined;
  d["quarantined_bytes"] = u.quarantined_bytes;
  d["unfinished"] = u.unfinished;
  return d;
}

// Stores what another cache exported, under the key it carries; the entry's state.
std::string import_entry(HostTier& tier, const std::string& bytes) {
  const cache::DecodedEntry decoded = cache::decode_entry(bytes, std::nullopt);
  if (decoded.state == EntryState::kGood && !tier.write(decoded.entry.key, bytes)) return "refused";
  return std::string(entry_state_name(decoded.state));
}

void bind_host_tier(py::module_& m) {
  py::class_<HostTier>(m, "_HostTier")
      .def(py::init([](const std::string& folder, int64_t max_bytes, bool create) {
             HostTier::Options options;
             options.folder = folder;
             options.max_bytes = max_bytes;
             options.create = create;
             return std::make_unique<HostTier>(std::move(options));
           }),
           py::arg("folder"), py::arg("max_bytes"), py::arg("create"))
      .def("usable", &HostTier::usable)
      .def("list", &list_entries, py::arg("check"))
      .def("usage", &usage)
      .def("prune", &HostTier::prune, py::arg("max_bytes"),
           py::call_guard<py::gil_scoped_release>())
      .def("clear", &HostTier::clear, py::call_guard<py::gil_scoped_release>())
      .def("read",
           [](HostTier& tier, const std::string& key) -> std::optional<py::bytes> {
             const auto bytes = tier.read(key_from(key));
             if (!bytes) return std::nullopt;
             return py::bytes(*bytes);
           })
      .def("import_entry", &import_entry)
      .def("write", [](HostTier& tier, const std::string& key, const std::string& name,
                       const std::string& payload) {
        const Key k = key_from(key);
        return tier.write(k,
                          cache::encode_entry({k, cache::EntryKind::kProgram, name, "", payload}));
      });
}

}  // namespace

void bind_cache(py::module_& m) {
  bind_host_tier(m);
  m.def("_cache_host_options", &host_options);
  m.def("_cache_stats", &cache_stats);
  m.def("_cache_set_fleet", &set_fleet);
  m.def("_cache_flush", &flush);
  m.def("_cache_close_fleet", &close_fleet);
  m.def("_cache_forbid_compiling", [](bool forbid) {
    if (forbid) {
      the_cache().forbid_compiling();
    } else {
      the_cache().allow_compiling();
    }
  });
  m.def("_cache_set_enabled", [](bool enabled) { the_cache().set_enabled(enabled); });
  m.def("_cache_enabled", [] { return the_cache().enabled(); });
  m.def("_cache_clear_host", []() -> int64_t {
    HostTier* host = the_cache().host();
    return host == nullptr ? 0 : host->clear();
  });
  m.def("_clear_programs", &runtime::clear_programs);
  m.def("_cache_find", [](const std::string& key) -> std::optional<py::bytes> {
    Cache& all = the_cache();
    std::optional<std::string> found;
    {
      py::gil_scoped_release release;
      found = all.find(key_from(key));
    }
    if (!found) return std::nullopt;
    return py::bytes(*found);
  });
  m.def("_cache_store",
        [](const std::string& key, const std::string& name, const std::string& payload) {
          Cache& all = the_cache();
          py::gil_scoped_release release;
          all.store(key_from(key), cache::EntryKind::kCall, name, payload);
        });
  m.def("_parse_byte_size", [](const std::string& text) { return parse_byte_size(text); });
}

}  // namespace torch_tpu
