// The cache with real plugins, each use in a process of its own.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "cache/cache.h"
#include "cache/file_hash.h"
#include "cache/fingerprint.h"
#include "cache/testing/cache_test.h"
#include "pjrt/testing/plugin_test.h"

namespace torch_tpu::cache {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace)
using Floats = std::array<float, 4>;

// A process that starts, runs programs through the cache and ends.
class Session {
 public:
  Session(const std::string& plugin, const std::string& folder)
      : client_(pjrt::Client::create(pjrt::Plugin::load(plugin))),
        cache_(std::make_unique<HostTier>(HostTier::Options{.folder = folder})),
        fingerprint_({.package_version = "1",
                      .plugin_sha256 = file_sha256(plugin, cache_.host()),
                      .flags = compiler_flags(),
                      .cpu = cpu_description(),
                      .device_kind = client_.devices().at(0).kind(),
                      .topology = "1"}) {}

  // The program adds its two operands, then adds `number`.
  Floats run(int number, const Floats& a, const Floats& b) {
    const std::string text = concat(R"(
module @program {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    %1 = stablehlo.constant dense<)",
                                    number, R"(.0> : tensor<4xf32>
    %2 = stablehlo.add %0, %1 : tensor<4xf32>
    return %2 : tensor<4xf32>
  }
})");
    pjrt::CompileOptions options;
    options.portable = true;
    const std::string serialized = options.serialize();
    auto [executable, source] = cache_.load_or_compile<pjrt::LoadedExecutable>(
        fingerprint_.program_key(text, serialized), "add",
        [&](std::string_view bytes) { return client_.deserialize(bytes); },
        [&] { return client_.compile(text, serialized); },
        [](const pjrt::LoadedExecutable& e) { return e.serialize(); });
    last_source = source;
    const std::array<int64_t, 1> dims = {4};
    PJRT_Device* device = client_.devices().at(0).raw();
    const auto to_device = [&](const Floats& values) {
      return client_.buffer_from_host(values.data(), PJRT_Buffer_Type_F32, dims, {}, device).buffer;
    };
    const pjrt::Buffer x = to_device(a);
    const pjrt::Buffer y = to_device(b);
    const std::array<PJRT_Buffer*, 2> arguments = {x.raw(), y.raw()};
    PJRT_Buffer* output = nullptr;
    executable.execute(arguments.data(), arguments.size(), &output, device);
    Floats result;
    pjrt::Buffer(client_.api(), output).to_host(result.data(), sizeof result).await();
    return result;
  }

  bool adds_up(int number) {
    return run(number, {1, 2, 3, 4}, {10, 20, 30, 40}) ==
           Floats{11.0F + number, 22.0F + number, 33.0F + number, 44.0F + number};
  }

  CacheStats stats() const { return cache_.stats(); }
  HostTier& host() { return *cache_.host(); }
  Source last_source = Source::kCompiled;

 private:
  pjrt::Client client_;
  Cache cache_;
  Fingerprint fingerprint_;
};

class PluginCacheTest : public ::testing::TestWithParam<pjrt::testing::PluginParam> {
 protected:
  void SetUp() override {
    plugin_ = pjrt::testing::path_from(GetParam().variable);
    if (plugin_.empty()) GTEST_SKIP() << GetParam().variable << " is not set";
  }
  pid_t start(const std::function<int(Session&)>& body) const {
    return start_child([&] {
      Session session(plugin_, folder_.cache());
      return body(session);
    });
  }
  int in_process(const std::function<int(Session&)>& body) const { return wait_for(start(body)); }

  const TemporaryFolder folder_;
  std::string plugin_;
};

INSTANTIATE_TEST_SUITE_P(Plugins, PluginCacheTest,
                         ::testing::ValuesIn(pjrt::testing::kPluginParams),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(PluginCacheTest, ASecondStartLoadsAndComputesTheSame) {
  for (const Source expected : {Source::kCompiled, Source::kHost}) {
    EXPECT_EQ(in_process([&](Session& s) {
                for (int i = 0; i < 3; ++i) {
                  if (!s.adds_up(i)) return 1;
                  if (s.last_source != expected) return 2;
                }
                return 0;
              }),
              0);
  }
}

TEST_P(PluginCacheTest, EightProcessesOnAnEmptyCacheCompileAsManyProgramsAsOne) {
  constexpr int kPrograms = 5;
  const std::string log = folder_.path() + "/log";
  std::vector<pid_t> children;
  for (int child = 0; child < 8; ++child) {
    children.push_back(start([&](Session& s) {
      for (int i = 0; i < kPrograms; ++i) {
        if (!s.adds_up(i)) return 1;
      }
      const File file(::open(log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
      write_all(file.descriptor(), std::string(static_cast<size_t>(s.stats().compilations), 'x'));
      return 0;
    }));
  }
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(text_of_file(log).size(), static_cast<size_t>(kPrograms));
}

TEST_P(PluginCacheTest, DamageInEveryPartOfAnEntryCostsACompilationAndNothingElse) {
  // The plugins load some damaged executables without complaint: the checksum must catch them all.
  EXPECT_EQ(in_process([](Session& s) { return s.adds_up(0) ? 0 : 1; }), 0);
  std::string file;
  for (const auto& entry : fs::recursive_directory_iterator(folder_.cache() + "/v1/entries")) {
    if (entry.is_regular_file() && peek_entry(text_of_file(entry.path()))->name == "add")
      file = entry.path();
  }
  ASSERT_FALSE(file.empty());
  const std::string good = text_of_file(file);
  EXPECT_EQ(in_process([&](Session& s) {
              const Warnings warnings;
              int compiled = 0;
              for (size_t at = 0; at < good.size(); at += good.size() / 20) {
                std::string bad = good;
                for (size_t i = at; i < std::min(at + 64, bad.size()); ++i) bad[i] ^= 0x55;
                overwrite(file, bad);
                if (!s.adds_up(0)) return 1;
                if (s.stats().compilations != ++compiled) return 2;
                overwrite(file, good.substr(0, at));
                if (!s.adds_up(0)) return 3;
                if (s.stats().compilations != ++compiled) return 4;
              }
              return s.adds_up(0) && s.last_source == Source::kHost ? 0 : 5;
            }),
            0);
}

TEST(PluginCache, PluginsThatShareAFolderNeverLoadEachOthersPrograms) {
  const TemporaryFolder folder;
  std::vector<std::string> plugins;
  for (const auto& param : pjrt::testing::kPluginParams) {
    if (const std::string path = pjrt::testing::path_from(param.variable); !path.empty())
      plugins.push_back(path);
  }
  if (plugins.size() < 2) GTEST_SKIP() << "needs two plugins";
  for (const Source expected : {Source::kCompiled, Source::kHost}) {
    for (const std::string& plugin : plugins) {
      EXPECT_EQ(run_in_child([&] {
                  Session session(plugin, folder.cache());
                  if (!session.adds_up(0)) return 1;
                  return session.last_source == expected ? 0 : 2;
                }),
                0)
          << plugin;
    }
  }
}

}  // namespace
}  // namespace torch_tpu::cache
