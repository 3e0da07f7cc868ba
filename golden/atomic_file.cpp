#include "golden/atomic_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

namespace plumbline::golden {
namespace {

using contract::Error;
using contract::file_error;
using contract::Status;

constexpr std::array<int, 6> kFatalSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGXFSZ};

// What the signal handler removes. The name is complete before the owner is set, and only one write is under way.
std::array<char, PATH_MAX> g_temporary{};
std::atomic<pid_t> g_owner{0};
static_assert(std::atomic<pid_t>::is_always_lock_free);

/// Removes the temporary of this process (a forked child inherits the handler, not the file) and lets the signal do
/// what it does by default. Only async-signal-safe calls.
extern "C" void remove_temporary_and_die(int signal_number) {
  if (g_owner.load() == ::getpid()) ::unlink(g_temporary.data());
  ::signal(signal_number, SIG_DFL);
  ::raise(signal_number);
}

/// For its lifetime, a signal that would end the process removes the temporary first.
class TemporaryGuard {
 public:
  explicit TemporaryGuard(const std::string& path) {
    std::copy(path.begin(), path.end(), g_temporary.begin());
    g_temporary[path.size()] = '\0';
    g_owner.store(::getpid());
    for (std::size_t i = 0; i < kFatalSignals.size(); ++i) {
      struct sigaction current {};
      if (::sigaction(kFatalSignals[i], nullptr, &current) != 0 || current.sa_handler != SIG_DFL) continue;
      struct sigaction ours {};
      ours.sa_handler = remove_temporary_and_die;
      sigemptyset(&ours.sa_mask);
      installed_[i] = ::sigaction(kFatalSignals[i], &ours, &previous_[i]) == 0;
    }
  }
  ~TemporaryGuard() {
    g_owner.store(0);
    for (std::size_t i = 0; i < kFatalSignals.size(); ++i)
      if (installed_[i]) ::sigaction(kFatalSignals[i], &previous_[i], nullptr);
  }
  TemporaryGuard(const TemporaryGuard&) = delete;
  TemporaryGuard& operator=(const TemporaryGuard&) = delete;

 private:
  std::array<bool, kFatalSignals.size()> installed_{};
  std::array<struct sigaction, kFatalSignals.size()> previous_{};
};

/// A file descriptor that is closed on every path; `close` tells whether that worked.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  bool close() { return fd_ < 0 || ::close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

Error cannot(const std::string& path, std::string_view what) {
  return file_error(path, "cannot " + std::string(what) + ": " + std::strerror(errno) + "; nothing was written");
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return true;
}

/// Whether the bytes are on the disk; a file system that cannot say so (EINVAL) is believed.
bool synchronise(int fd) { return ::fsync(fd) == 0 || errno == EINVAL || errno == ENOTSUP; }

Status write_through(const std::string& path, std::span<const std::byte> bytes) {
  Descriptor out(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!out.valid()) return cannot(path, "open it for writing");
  if (!write_all(out.get(), bytes) || !out.close())
    return file_error(path, std::string("cannot write: ") + std::strerror(errno));
  return {};
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

Status write_beside_and_rename(const std::string& path, const std::string& target, const struct stat* existing,
                               std::span<const std::byte> bytes) {
  static unsigned serial = 0;
  const std::string temporary = target + "." + std::to_string(::getpid()) + "-" + std::to_string(serial++) + ".tmp";
  if (temporary.size() >= PATH_MAX) return file_error(path, "the path is too long; nothing was written");
  const TemporaryGuard guard(temporary);
  Descriptor out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!out.valid()) return cannot(path, "write in its folder");
  const bool done = (existing == nullptr || ::fchmod(out.get(), existing->st_mode & 07777) == 0) &&
                    write_all(out.get(), bytes) && synchronise(out.get()) && out.close() &&
                    ::rename(temporary.c_str(), target.c_str()) == 0;
  if (!done) {
    const Error error = cannot(path, "write");
    ::unlink(temporary.c_str());
    return error;
  }
  // The new name is safe only when the folder is; a failure here loses nothing that is under either name.
  const Descriptor folder(::open(folder_of(target).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.valid()) synchronise(folder.get());
  return {};
}

}  // namespace

Status write_file(const std::string& path, std::span<const std::byte> bytes) {
  static std::mutex mutex;
  const std::lock_guard turn(mutex);
  if (path.empty()) return file_error(path, "cannot write a file without a name");
  struct stat status {};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return file_error(path, "is a folder, need a file name; nothing was written");
  if (exists && !S_ISREG(status.st_mode)) return write_through(path, bytes);
  std::string target = path;
  if (exists) {
    // Rename would replace a write-protected file without asking.
    if (::access(path.c_str(), W_OK) != 0) return cannot(path, "write");
    std::array<char, PATH_MAX> resolved{};
    if (::realpath(path.c_str(), resolved.data()) == nullptr) return cannot(path, "resolve its name");
    target = resolved.data();
  }
  return write_beside_and_rename(path, target, exists ? &status : nullptr, bytes);
}

Status write_file(const std::string& path, std::string_view text) {
  return write_file(path, std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace plumbline::golden
