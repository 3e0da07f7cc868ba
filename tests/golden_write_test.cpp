#include <fcntl.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "golden/atomic_file.hpp"
#include "golden_fixture.hpp"

namespace plumbline::golden::test {
namespace {

using contract::DatasetId;
using contract::ErrorCode;
using contract::Status;

GoldenFile good(const std::string& name = "swa_window") {
  auto golden = read(oracle(name));
  EXPECT_TRUE(golden.ok());
  return std::move(*golden);
}

/// Runs `body` in a process of its own and returns its wait status.
int in_process(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

// Bytes.

TEST(GoldenWrite, TheSameContentsGiveTheSameBytes) {
  const TemporaryFolder folder;
  for (const char* name : {"csa_row_mask_nan", "hca_long", "swa_window"}) {
    const GoldenFile golden = good(name);
    ASSERT_TRUE(write(folder.file("first.h5"), golden).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(1100));  // a stored time would differ
    ::mallopt(M_PERTURB, 0x5A);                                    // uninitialised bytes would differ
    ASSERT_TRUE(write(folder.file("second.h5"), golden).ok());
    ::mallopt(M_PERTURB, 0);
    EXPECT_EQ(bytes_of(folder.file("first.h5")), bytes_of(folder.file("second.h5"))) << name;
  }
}

TEST(GoldenWrite, OneChangedBitChangesTheBytes) {
  const TemporaryFolder folder;
  GoldenFile golden = good();
  ASSERT_TRUE(write(folder.file("first.h5"), golden).ok());
  double& value = golden.results.at(DatasetId::forward(contract::StageId::kOut))[5];
  value = std::nextafter(value, 2 * value);
  ASSERT_TRUE(write(folder.file("second.h5"), golden).ok());
  EXPECT_NE(bytes_of(folder.file("first.h5")), bytes_of(folder.file("second.h5")));
}

TEST(GoldenWrite, TakesPartialResultsAndEmptyBatches) {
  const TemporaryFolder folder;
  GoldenFile golden = good();
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (i != DatasetId::hidden_gradient().index()) golden.results.erase(DatasetId::from_index(i));
  ASSERT_TRUE(write(folder.file("partial.h5"), golden).ok());
  auto copy = read(folder.file("partial.h5"));
  ASSERT_TRUE(copy.ok()) << copy.error().text();
  expect_same(*copy, golden);

  golden.results = {};
  golden.problem.packing = contract::Packing();
  golden.problem.hidden = golden.problem.grad_out = contract::Tensor({0, golden.problem.config.hidden});
  ASSERT_TRUE(write(folder.file("empty.h5"), golden).ok());
  copy = read(folder.file("empty.h5"));
  ASSERT_TRUE(copy.ok()) << copy.error().text();
  expect_same(*copy, golden);
}

TEST(GoldenWrite, SplitsLargeTensorsIntoChunks) {
  const TemporaryFolder folder;
  GoldenFile golden = good();
  golden.results = {};
  auto& problem = golden.problem;
  problem.config.q_lora_rank = 3000;
  for (auto id : {contract::WeightId::kWqA, contract::WeightId::kQNorm, contract::WeightId::kWqB})
    problem.weight(id) = contract::Tensor(shape_of(info(id).axes, problem.config, problem.packing));
  for (contract::Index i = 0; i < problem.weight(contract::WeightId::kWqB).size(); ++i)
    problem.weight(contract::WeightId::kWqB)[i] = std::sin(static_cast<double>(i));
  ASSERT_TRUE(write(folder.file("large.h5"), golden).ok());
  const auto copy = read_guarded(folder.file("large.h5"));
  ASSERT_TRUE(copy.ok()) << copy.error().text();
  expect_same(*copy, golden);
}

TEST(GoldenWrite, RefusesWhatItsReaderWouldRefuse) {
  const TemporaryFolder folder;
  const std::string path = folder.file("bad.h5");
  const auto refusal = [&](const std::function<void(GoldenFile&)>& spoil) {
    GoldenFile golden = good();
    spoil(golden);
    const Status status = write(path, golden);
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(folder.names().empty());
    return status.ok() ? "" : status.error().text();
  };
  EXPECT_EQ(
      refusal([](GoldenFile& g) { g.problem.hidden[0] = std::nan(""); }).find(path + ": inputs/hidden: holds NaN"), 0u);
  EXPECT_EQ(refusal([](GoldenFile& g) {
              g.results.at(DatasetId::hidden_gradient())[3] = HUGE_VAL;
            }).find(path + ": grad/inputs/hidden: holds Inf"),
            0u);
  EXPECT_EQ(refusal([](GoldenFile& g) { g.problem.config.heads = 0; }).find(path + ": config/heads: got 0"), 0u);
  EXPECT_EQ(refusal([](GoldenFile& g) {
              g.results.set(DatasetId::forward(contract::StageId::kOut), contract::Tensor({20, 47}));
            }).find(path + ": forward/out: has shape [20, 47]"),
            0u);
  EXPECT_EQ(refusal([](GoldenFile& g) { g.case_text = "a\xFF"; }).find(path + ": case: is not valid UTF-8"), 0u);
  EXPECT_EQ(refusal([](GoldenFile& g) { g.contents = Contents::kSeed; }).find(path + ": contents: 'seed' has no"), 0u);
}

// Whole or not at all.

TEST(AtomicFile, WritesTextAndReplacesIt) {
  const TemporaryFolder folder;
  const std::string path = folder.file("report.json");
  ASSERT_TRUE(write_file(path, std::string_view("one\n")).ok());
  EXPECT_EQ(bytes_of(path), "one\n");
  ASSERT_EQ(::chmod(path.c_str(), 0640), 0);
  ASSERT_TRUE(write_file(path, std::string_view("")).ok());
  EXPECT_EQ(bytes_of(path), "");
  struct stat status {};
  ::stat(path.c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"report.json"});
}

TEST(AtomicFile, ANewFileHasTheUsersPermissions) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  ASSERT_TRUE(write_file(folder.file("new"), std::string_view("x")).ok());
  ::umask(before);
  struct stat status {};
  ::stat(folder.file("new").c_str(), &status);
  EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST(AtomicFile, FollowsSymbolicLinks) {
  const TemporaryFolder folder;
  write_bytes(folder.file("real"), "old");
  ASSERT_EQ(::symlink("real", folder.file("link").c_str()), 0);
  ASSERT_TRUE(write_file(folder.file("link"), std::string_view("new")).ok());
  EXPECT_EQ(bytes_of(folder.file("real")), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder.file("link")));
}

TEST(AtomicFile, RefusesPlacesThatCannotBeWritten) {
  const TemporaryFolder folder;
  write_bytes(folder.file("file"), "old");
  const auto refusal = [](const std::string& path) {
    const Status status = write_file(path, std::string_view("new"));
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_EQ(status.error().code, ErrorCode::kFile);
    EXPECT_EQ(status.error().where, path);
    return status.error().message;
  };
  EXPECT_NE(refusal(folder.file("absent/x")).find("No such file or directory; nothing was written"), std::string::npos);
  EXPECT_NE(refusal(folder.file("file/x")).find("Not a directory; nothing was written"), std::string::npos);
  EXPECT_NE(refusal(folder.path()).find("is a folder"), std::string::npos);
  EXPECT_NE(refusal("").find("without a name"), std::string::npos);
  EXPECT_NE(refusal(folder.file(std::string(300, 'x'))).find("File name too long"), std::string::npos);
  EXPECT_NE(refusal("/proc/absent").find("nothing was written"), std::string::npos);
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
  EXPECT_EQ(bytes_of(folder.file("file")), "old");
}

TEST(AtomicFile, RefusesWriteProtectedFilesAndFolders) {
  const TemporaryFolder folder;
  write_bytes(folder.file("file"), "old");
  ::chmod(folder.file("file").c_str(), 0444);
  const auto attempt = [&](const std::string& name) {
    return in_process([&] {
      // Root may write anything, so be somebody else.
      if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 2;
      return write_file(folder.file(name), std::string_view("new")).ok() ? 1 : 0;
    });
  };
  ::chmod(folder.path().c_str(), 0777);
  EXPECT_EQ(attempt("file"), 0);
  EXPECT_NE(attempt("other"), 0);  // the folder itself can be written
  std::filesystem::remove(folder.file("other"));
  ::chmod(folder.path().c_str(), 0555);
  EXPECT_EQ(attempt("other"), 0);
  ::chmod(folder.path().c_str(), 0755);
  EXPECT_EQ(bytes_of(folder.file("file")), "old");
  EXPECT_EQ(folder.names(), std::vector<std::string>{"file"});
}

TEST(AtomicFile, AFullDeviceIsAnError) {
  const int status = in_process([] {
    // As somebody who could not replace the device, should the code under test try to.
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 2;
    const Status written = write_file("/dev/full", std::string_view("x"));
    return !written.ok() && written.error().text() == "/dev/full: cannot write: No space left on device" ? 0 : 1;
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(AtomicFile, APipeIsWrittenThroughAndStaysOne) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo(folder.file("pipe").c_str(), 0600), 0);
  const int reader = ::open(folder.file("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(write_file(folder.file("pipe"), std::string_view("report")).ok());
  char text[16] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 6);
  EXPECT_STREQ(text, "report");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(folder.file("pipe")));
}

// A limit on the size of files stands in for a full disk: the write fails part of the way.
TEST(AtomicFile, AFullDiskLeavesWhatWasThere) {
  const TemporaryFolder folder;
  const GoldenFile golden = good();
  for (bool existing : {false, true}) {
    if (existing) write_bytes(folder.file("golden.h5"), "old");
    const int status = in_process([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{100000, 100000};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
      const Status written = write(folder.file("golden.h5"), golden);
      if (written.ok()) return 3;
      const bool clear =
          written.error().text() == folder.file("golden.h5") + ": cannot write: File too large; nothing was written";
      return clear && written.error().code == ErrorCode::kFile ? 0 : 4;
    });
    EXPECT_EQ(WEXITSTATUS(status), 0);
    EXPECT_EQ(folder.names(), existing ? std::vector<std::string>{"golden.h5"} : std::vector<std::string>{});
  }
  EXPECT_EQ(bytes_of(folder.file("golden.h5")), "old");
}

TEST(GoldenWriter, StopsAtAnyDatasetWhenCancelled) {
  const TemporaryFolder folder;
  const GoldenFile golden = good();
  int datasets = 0;
  const auto count = [&] { return ++datasets, false; };
  ASSERT_TRUE(write(folder.file("whole.h5"), golden, count).ok());
  ASSERT_GT(datasets, 20);
  for (int stop = 1; stop <= datasets; ++stop) {
    int asked = 0;
    const Status written = write(folder.file("golden.h5"), golden, [&] { return ++asked == stop; });
    ASSERT_FALSE(written.ok()) << stop;
    EXPECT_EQ(written.error().code, ErrorCode::kInterrupted);
    EXPECT_EQ(written.error().text(), folder.file("golden.h5") + ": interrupted; nothing was written");
  }
  EXPECT_EQ(folder.names(), std::vector<std::string>{"whole.h5"});
}

TEST(AtomicFile, ASignalOfALimitLeavesNothing) {
  const TemporaryFolder folder;
  const int status = in_process([&] {
    const rlimit limit{100000, 100000}, no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    (void)write_file(folder.file("text"), std::string(1 << 20, 'x'));
    return 0;
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ) << status;
  EXPECT_TRUE(folder.names().empty());
}

TEST(AtomicFile, AnInterruptionLeavesTheOldOrTheNewFile) {
  const std::string text(std::size_t{48} << 20, 'x');
  int interrupted = 0;
  for (int round = 0; round < 12; ++round) {
    const TemporaryFolder folder;
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) (void)write_file(folder.file("text"), text);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + 7 * round));
    ::kill(child, round % 2 == 0 ? SIGTERM : SIGINT);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status));
    for (const std::string& name : folder.names()) EXPECT_EQ(name, "text");
    if (folder.names().empty())
      ++interrupted;
    else
      EXPECT_EQ(std::filesystem::file_size(folder.file("text")), text.size());
  }
  EXPECT_GT(interrupted, 0);
}

TEST(AtomicFile, LeavesSignalHandlersAsTheyWere) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.file("text"), std::string_view("x")).ok());
  for (int signal_number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction action {};
    ::sigaction(signal_number, nullptr, &action);
    EXPECT_EQ(action.sa_handler, SIG_DFL);
  }
}

TEST(AtomicFile, ThreadsTakeTurns) {
  const TemporaryFolder folder;
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b', 'c', 'd'})
    threads.emplace_back([&, letter] {
      for (int i = 0; i < 20; ++i) (void)write_file(folder.file("text"), std::string(100000, letter));
    });
  for (auto& thread : threads) thread.join();
  const std::string bytes = bytes_of(folder.file("text"));
  ASSERT_EQ(bytes.size(), 100000u);
  EXPECT_EQ(bytes, std::string(100000, bytes[0]));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"text"});
}

}  // namespace
}  // namespace plumbline::golden::test
