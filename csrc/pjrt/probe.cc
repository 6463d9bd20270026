#include "pjrt/probe.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"

extern char** environ;

namespace torch_tpu::pjrt {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kTailBytes = 4096;
constexpr size_t kMaxReportBytes = 1 << 16;

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { close(); }

  int get() const { return number_; }
  void set(int number) { number_ = number; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;
  std::string text;

  Pipe() {
    int ends[2];
    TT_CHECK(::pipe2(ends, O_CLOEXEC) == 0, kUnavailable,
             "no pipe for the plugin probe: ", std::strerror(errno));
    read_end.set(ends[0]);
    write_end.set(ends[1]);
  }
};

pid_t spawn(const std::string& executable, const std::vector<std::string>& arguments,
            const Pipe& out, const Pipe& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.write_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.write_end.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A group of its own can be killed whole; signals that we block or ignore must work there.
  sigset_t none;
  sigset_t defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  sigdelset(&defaults, SIGKILL);
  sigdelset(&defaults, SIGSTOP);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t child = -1;
  const int failure =
      ::posix_spawn(&child, executable.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  TT_CHECK(failure == 0, kUnavailable, "the plugin probe ", executable,
           " can't be started: ", std::strerror(failure));
  return child;
}

// Reads what there is; false at the end of the stream.
bool drain(Pipe& pipe, size_t keep, bool keep_tail) {
  std::array<char, 4096> chunk;
  const ssize_t count = ::read(pipe.read_end.get(), chunk.data(), chunk.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  pipe.text.append(chunk.data(), static_cast<size_t>(count));
  if (pipe.text.size() > keep) {
    if (keep_tail)
      pipe.text.erase(0, pipe.text.size() - keep);
    else
      pipe.text.resize(keep);
  }
  return true;
}

// Until both streams end or the time is over; true if they ended.
bool collect(Pipe& out, Pipe& err, Clock::time_point deadline) {
  while (out.read_end.get() >= 0 || err.read_end.get() >= 0) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return false;
    std::array<pollfd, 2> polled = {
        {{out.read_end.get(), POLLIN, 0}, {err.read_end.get(), POLLIN, 0}}};
    const int wait_ms = static_cast<int>(std::min<int64_t>(left.count(), 1000));
    const int ready = ::poll(polled.data(), polled.size(), wait_ms);
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    if (polled[0].revents != 0 && !drain(out, kMaxReportBytes, false)) out.read_end.close();
    if (polled[1].revents != 0 && !drain(err, kTailBytes, true)) err.read_end.close();
  }
  return true;
}

// The wait status, or nothing when the time is over first.
bool wait_until(pid_t child, Clock::time_point deadline, int& status) {
  auto pause = std::chrono::microseconds(100);
  while (true) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child) return true;
    // Somebody else reaped it (SIGCHLD ignored): the status is lost, the report will tell.
    if (ended < 0 && errno != EINTR) {
      status = 0;
      return true;
    }
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

std::string ProbeResult::failure() const {
  if (ok) return "";
  std::string text;
  if (timed_out)
    text = concat("no answer within ", seconds, " s");
  else if (signal != 0)
    text = concat("killed by signal ", signal, " (", ::strsignal(signal), ")");
  else if (exit_code != 0)
    text = concat("exit code ", exit_code);
  else
    text = "it ended without a report";
  if (!stderr_tail.empty()) text += "; its last words:\n" + stderr_tail;
  return text;
}

ProbeResult run_probe(const std::string& executable, const std::string& plugin_path,
                      std::span<const NamedValue> options, std::chrono::milliseconds timeout) {
  std::vector<std::string> arguments = {executable, plugin_path};
  for (const NamedValue& option : options) arguments.push_back(to_argument(option));

  const Clock::time_point start = Clock::now();
  const Clock::time_point deadline = start + timeout;
  Pipe out;
  Pipe err;
  const pid_t child = spawn(executable, arguments, out, err);
  out.write_end.close();
  err.write_end.close();

  ProbeResult result;
  int status = 0;
  if (!collect(out, err, deadline) || !wait_until(child, deadline, status)) {
    result.timed_out = true;
    ::kill(-child, SIGKILL);
    ::waitpid(child, &status, 0);
  }
  result.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (!result.timed_out && WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (!result.timed_out && WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  result.stderr_tail = std::move(err.text);
  result.ok = !result.timed_out && result.exit_code == 0 && out.text.starts_with('{');
  if (result.ok) result.report = first_line(out.text);
  TT_LOG(kInfo, "probe of ", plugin_path, ": ", result.ok ? result.report : result.failure());
  return result;
}

std::string probe_plugin(const std::string& executable, const std::string& plugin_path,
                         std::span<const NamedValue> options, std::chrono::milliseconds timeout) {
  ProbeResult result = run_probe(executable, plugin_path, options, timeout);
  TT_CHECK(result.ok, kUnavailable, "PJRT plugin ", plugin_path,
           " doesn't work (tried in a process of its own): ", result.failure());
  return std::move(result.report);
}

}  // namespace torch_tpu::pjrt
