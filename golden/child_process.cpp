#include "golden/child_process.hpp"

#include <fcntl.h>
#include <omp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <thread>

#include "golden/hdf5_handle.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define PLUMBLINE_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLUMBLINE_ADDRESS_SANITIZER 1
#endif
#endif

namespace plumbline::golden {
namespace {

using contract::Error;
using contract::ErrorCode;
using contract::file_error;
using contract::Status;
using Clock = std::chrono::steady_clock;

// Room for the library's own caches and for what the process does besides holding values.
constexpr double kOverheadBytes = 512e6;

Error unreadable(std::string why) { return file_error("", "unreadable file: " + std::move(why)); }

// glibc gives resources a type of their own in C++, other libraries do not.
using Resource = decltype(RLIMIT_AS);

void limit(Resource resource, double value) {
  rlimit current{};
  if (::getrlimit(resource, &current) != 0) return;
  const double ceiling = current.rlim_max == RLIM_INFINITY ? 0x1p62 : static_cast<double>(current.rlim_max);
  current.rlim_cur = static_cast<rlim_t>(std::min(value, ceiling));
  current.rlim_max = std::min(current.rlim_max, current.rlim_cur);
  ::setrlimit(resource, &current);
}

#ifndef PLUMBLINE_ADDRESS_SANITIZER
/// Address space in use: a child inherits its parent's, which a memory limit must not count.
double address_space_bytes() {
  double pages = 0;
  if (std::FILE* file = std::fopen("/proc/self/statm", "re")) {
    if (std::fscanf(file, "%lf", &pages) != 1) pages = 0;
    std::fclose(file);
  }
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE));
}
#endif

void confine_child(pid_t parent, const GuardLimits& limits) {
#ifdef __linux__
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
#endif
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGXCPU})
    ::signal(signal_number, SIG_DFL);
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  // Whatever the libraries print when they die is not for the user, who gets one line from the parent.
  if (const int null = ::open("/dev/null", O_RDWR); null >= 0) {
    ::dup2(null, STDIN_FILENO);
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
    if (null > STDERR_FILENO) ::close(null);
  }
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, std::ceil(limits.seconds) + 1);
#ifndef PLUMBLINE_ADDRESS_SANITIZER
  limit(RLIMIT_AS, address_space_bytes() + limits.memory_bytes + kOverheadBytes);
#endif
}

[[noreturn]] void child_main(int out, pid_t parent, const std::function<bool(const ByteSink&)>& produce,
                             const GuardLimits& limits) {
  confine_child(parent, limits);
  // The threads of the parent's OpenMP are not in this process, and it would wait for them.
  omp_set_num_threads(1);
  const ByteSink sink = [out](std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(out, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return true;
  };
  bool sent = false;
  try {
    sent = produce(sink);
  } catch (...) {
  }
  // Not exit(): handlers registered by the parent (HDF5's, gcov's, a report's) are not this process's to run.
  ::_exit(sent ? 0 : 1);
}

/// Reads from the child until it is done, dead or late.
class Pipe {
 public:
  Pipe(int fd, double seconds, const std::function<bool()>& cancelled)
      : fd_(fd),
        asked_(cancelled),
        deadline_(Clock::now() +
                  std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::min(seconds, 1e8)))) {}

  bool late() const { return late_; }
  bool cancelled() const { return cancelled_; }

  /// Waits for a child that ends by itself, so that its own status is seen and not that of being killed.
  void await_end(pid_t child) {
    siginfo_t info{};
    while (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == 0) {
      late_ = Clock::now() >= deadline_;
      if (late_) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  bool fill(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      cancelled_ = cancelled_ || (asked_ && asked_());
      if (cancelled_) return false;
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      pollfd waiting{fd_, POLLIN, 0};
      const int ready = left > 0 ? ::poll(&waiting, 1, static_cast<int>(std::min<std::int64_t>(left, 200))) : 0;
      if (ready < 0 && errno != EINTR) return false;
      if (ready <= 0) {
        if (Clock::now() < deadline_) continue;
        late_ = true;
        return false;
      }
      const ssize_t count = ::read(fd_, bytes.data(), bytes.size());
      if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
      if (count <= 0) return false;
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return true;
  }

 private:
  int fd_;
  const std::function<bool()>& asked_;
  Clock::time_point deadline_;
  bool late_ = false;
  bool cancelled_ = false;
};

/// Ends the child, if it has not ended, and says how it did.
std::string reap(pid_t child) {
  ::kill(child, SIGKILL);
  int status = 0;
  pid_t got = 0;
  do got = ::waitpid(child, &status, 0);
  while (got < 0 && errno == EINTR);
  if (got == child && WIFSIGNALED(status)) {
    const int signal_number = WTERMSIG(status);
    if (signal_number == SIGXCPU) return "reading it used up its processor time";
    return "the reader of it died of signal " + std::to_string(signal_number) + " (" + ::strsignal(signal_number) + ")";
  }
  return "the reader of it gave no answer";
}

}  // namespace

Status exchange_with_child(const std::function<bool(const ByteSink&)>& produce,
                           const std::function<bool(const ByteSource&)>& consume, const GuardLimits& limits) {
#ifdef PLUMBLINE_ADDRESS_SANITIZER
  static std::mutex one_at_a_time;
  const std::lock_guard turn(one_at_a_time);
#endif
  int ends[2] = {-1, -1};
  pid_t child = -1;
  {
    // While no other thread is inside HDF5, and so that no child inherits another's writing end.
    const std::lock_guard library(library_mutex());
    if (::pipe2(ends, O_CLOEXEC) != 0)
      return Error{ErrorCode::kInternal, std::string("cannot open a pipe: ") + std::strerror(errno), ""};
    const pid_t parent = ::getpid();
    child = ::fork();
    if (child == 0) {
      library_mutex().unlock();  // the lock of the thread that forked, which is the only one here
      ::close(ends[0]);
      child_main(ends[1], parent, produce, limits);
    }
    const int fork_error = errno;
    ::close(ends[1]);
    if (child < 0) {
      ::close(ends[0]);
      return Error{ErrorCode::kMemory, std::string("cannot start a process to read it: ") + std::strerror(fork_error),
                   ""};
    }
  }
  Pipe pipe(ends[0], limits.seconds, limits.cancelled);
  bool received = false, out_of_memory = false;
  try {
    received = consume([&](std::span<std::byte> bytes) { return pipe.fill(bytes); });
  } catch (const std::bad_alloc&) {
    out_of_memory = true;
  }
  ::close(ends[0]);
  if (!received && !pipe.late() && !pipe.cancelled() && !out_of_memory) pipe.await_end(child);
  const std::string end = reap(child);
  if (out_of_memory) return Error{ErrorCode::kMemory, "its values do not fit the memory of this process", ""};
  if (pipe.cancelled()) return Error{ErrorCode::kInterrupted, "interrupted while it was read", ""};
  if (pipe.late())
    return unreadable("reading it took more than " + std::to_string(static_cast<long>(std::ceil(limits.seconds))) +
                      " s; no sound file takes that long, so have it made again");
  if (!received) return unreadable(end);
  return {};
}

}  // namespace plumbline::golden
