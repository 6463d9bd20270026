#include "cache/key_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "cache/testing/cache_test.h"

namespace torch_tpu::cache {
namespace {

using std::chrono::milliseconds;
using testing::files_in;
namespace fs = std::filesystem;
using testing::start_child;
using testing::TemporaryFolder;
using testing::wait_for;

std::shared_ptr<const File> open_folder(const std::string& path) {
  return std::make_shared<const File>(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

TEST(KeyLock, OneHolderAtATimeAndNoFileIsLeft) {
  const TemporaryFolder folder;
  const auto descriptor = open_folder(folder.path());
  {
    const KeyLock first(descriptor, "k", milliseconds(0));
    EXPECT_EQ(first.state(), KeyLock::State::kHeld);
    EXPECT_EQ(first.waited().count(), 0);
    EXPECT_EQ(KeyLock(descriptor, "k", milliseconds(20)).state(), KeyLock::State::kTimedOut);
    EXPECT_EQ(KeyLock(descriptor, "another", milliseconds(0)).state(), KeyLock::State::kHeld);
  }
  EXPECT_EQ(KeyLock(descriptor, "k", milliseconds(0)).state(), KeyLock::State::kHeld);
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(KeyLock, ThreadsAndProcessesExcludeEachOtherThoughTheFileComesAndGoes) {
  const TemporaryFolder folder;
  const std::string counter = folder.path() + "/counter";
  testing::overwrite(counter, "0");
  fs::create_directory(folder.path() + "/locks");
  const auto work = [&] {
    const auto descriptor = open_folder(folder.path() + "/locks");
    for (int i = 0; i < 100; ++i) {
      const KeyLock lock(descriptor, "k", milliseconds(60'000));
      if (lock.state() != KeyLock::State::kHeld) return 1;
      testing::overwrite(counter, std::to_string(std::stoi(testing::text_of_file(counter)) + 1));
    }
    return 0;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) children.push_back(start_child(work));
  std::thread thread(work);
  work();
  thread.join();
  for (const pid_t child : children) EXPECT_EQ(wait_for(child), 0);
  EXPECT_EQ(testing::text_of_file(counter), "500");
  EXPECT_EQ(files_in(folder.path() + "/locks"), 0U);
}

TEST(KeyLock, IsFreeOnceItsHolderIsKilled) {
  const TemporaryFolder folder;
  const auto descriptor = open_folder(folder.path());
  const pid_t child = start_child([&] {
    const KeyLock lock(descriptor, "k", milliseconds(0));
    testing::overwrite(folder.path() + "/held", "");
    ::pause();
    return 0;
  });
  while (!fs::exists(folder.path() + "/held")) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(KeyLock(descriptor, "k", milliseconds(10)).state(), KeyLock::State::kTimedOut);
  ::kill(child, SIGKILL);
  const KeyLock lock(descriptor, "k", milliseconds(10'000));
  EXPECT_EQ(lock.state(), KeyLock::State::kHeld);
  EXPECT_EQ(wait_for(child), -SIGKILL);
}

TEST(KeyLock, IsFreeOnceReleasedThoughAForkedProcessLivesOn) {
  const TemporaryFolder folder;
  const auto descriptor = open_folder(folder.path());
  auto lock = std::make_unique<KeyLock>(descriptor, "k", milliseconds(0));
  const pid_t child = start_child([] {
    ::pause();
    return 0;
  });
  lock.reset();
  EXPECT_EQ(KeyLock(descriptor, "k", milliseconds(0)).state(), KeyLock::State::kHeld);
  ::kill(child, SIGKILL);
  wait_for(child);
}

TEST(KeyLock, InARemovedFolderIsUnavailable) {
  const TemporaryFolder folder;
  fs::create_directory(folder.path() + "/locks");
  const auto descriptor = open_folder(folder.path() + "/locks");
  fs::remove(folder.path() + "/locks");
  EXPECT_EQ(KeyLock(descriptor, "k", milliseconds(0)).state(), KeyLock::State::kUnavailable);
}

}  // namespace
}  // namespace torch_tpu::cache
