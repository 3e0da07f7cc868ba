#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "golden/guarded.hpp"
#include "golden_fixture.hpp"

// The child process itself: bodies that crash, hang, lie or answer.
namespace plumbline::golden::test {
namespace {

using contract::Error;
using contract::ErrorCode;
using contract::Result;

const GuardLimits kLimits{1e9, 20};

Result<GoldenFile> good() { return read(oracle("swa_window")); }

std::string refusal(const std::function<Result<GoldenFile>()>& body, const GuardLimits& limits = kLimits) {
  const auto answer = run_in_child(body, limits);
  EXPECT_FALSE(answer.ok());
  if (answer.ok()) return "";
  EXPECT_EQ(answer.error().code, ErrorCode::kFile) << answer.error().text();
  return answer.error().text();
}

TEST(GoldenGuarded, HandsOverAValue) {
  const auto answer = run_in_child(good, kLimits);
  ASSERT_TRUE(answer.ok()) << answer.error().text();
  expect_same(*answer, *good());
}

TEST(GoldenGuarded, HandsOverAnError) {
  const Error error{ErrorCode::kNonFinite, "holds NaN", "inputs/hidden"};
  const auto answer = run_in_child([&] { return error; }, kLimits);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, error.code);
  EXPECT_EQ(answer.error().message, error.message);
  EXPECT_EQ(answer.error().where, error.where);
}

TEST(GoldenGuarded, DeathOfTheChildIsAnUnreadableFile) {
  const auto die_of = [](int signal_number) {
    return [signal_number]() -> Result<GoldenFile> {
      ::signal(signal_number, SIG_DFL);
      ::raise(signal_number);
      return good();
    };
  };
  EXPECT_NE(refusal(die_of(SIGSEGV)).find("unreadable file: the reader of it died of signal 11"), std::string::npos);
  EXPECT_NE(refusal(die_of(SIGABRT)).find("unreadable file: the reader of it died of signal 6"), std::string::npos);
  EXPECT_NE(refusal(die_of(SIGKILL)).find("died of signal 9"), std::string::npos);
  EXPECT_EQ(refusal([]() -> Result<GoldenFile> { ::_exit(0); }), "unreadable file: the reader of it gave no answer");
  EXPECT_EQ(refusal([]() -> Result<GoldenFile> { throw 1; }), "unreadable file: the reader of it gave no answer");
}

TEST(GoldenGuarded, AHangEndsAtTheTimeLimit) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(refusal(
                []() -> Result<GoldenFile> {
                  for (;;) ::pause();
                },
                {1e9, 0.3}),
            "unreadable file: reading it took more than 1 s; no sound file takes that long, so have it made again");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(GoldenGuarded, AHangEndsWhenTheCallerIsInterrupted) {
  const auto start = std::chrono::steady_clock::now();
  int asked = 0;
  GuardLimits limits{1e9, 60};
  limits.cancelled = [&] { return ++asked > 2; };
  const auto answer = run_in_child(
      []() -> Result<GoldenFile> {
        for (;;) ::pause();
      },
      limits);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kInterrupted);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

TEST(GoldenGuarded, ABusyLoopEndsAtTheTimeLimit) {
  std::atomic<bool> never{false};
  EXPECT_EQ(refusal(
                [&] {
                  while (!never.load()) {
                  }
                  return good();
                },
                {1e9, 0.3}),
            "unreadable file: reading it took more than 1 s; no sound file takes that long, so have it made again");
}

TEST(GoldenGuarded, AnAnswerThatBreaksTheContractIsRefusedHere) {
  const auto answer = run_in_child(
      [] {
        auto golden = good();
        golden->problem.hidden[0] = std::nan("");
        return golden;
      },
      kLimits);
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kNonFinite);
  // A shape that does not follow from the configuration shifts the stream.
  EXPECT_NE(refusal([] {
              auto golden = good();
              golden->problem.hidden = contract::Tensor({1, 1});
              return golden;
            }).find("unreadable file"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              auto golden = good();
              golden->problem.packing.offsets.back() = std::int64_t{1} << 62;
              return golden;
            }).find("unreadable file"),
            std::string::npos);
}

TEST(GoldenGuarded, TheChildPrintsNothing) {
  ::testing::internal::CaptureStderr();
  ::testing::internal::CaptureStdout();
  const auto answer = run_in_child(
      []() -> Result<GoldenFile> {
        std::fprintf(stderr, "noise\n");
        std::printf("noise\n");
        std::fflush(stdout);
        return good();
      },
      kLimits);
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  EXPECT_TRUE(answer.ok());
}

TEST(GoldenGuarded, LeavesNoProcessBehind) {
  (void)run_in_child(good, kLimits);
  (void)run_in_child(
      []() -> Result<GoldenFile> {
        for (;;) ::pause();
      },
      {1e9, 0.1});
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

// AddressSanitizer has neither: see run_in_child.
#if !defined(__SANITIZE_ADDRESS__)
TEST(GoldenGuarded, MemoryIsLimited) {
  const auto answer = run_in_child(
      []() -> Result<GoldenFile> {
        std::vector<double> large(std::size_t{1} << 28);  // 2 GiB
        GoldenFile golden = *good();
        golden.case_text = std::to_string(large.back());
        return golden;
      },
      {1e6, 20});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().code, ErrorCode::kMemory) << answer.error().text();
}

TEST(GoldenGuarded, ThreadsAndParallelRegionsOfTheParentDoNotDisturbIt) {
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  std::atomic<bool> stop{false};
  // Others allocate, read and write meanwhile: a child forked in the middle must not find their locks held.
  const TemporaryFolder folder;
  const auto golden = good();
  ASSERT_TRUE(golden.ok());
  threads.emplace_back([&] {
    while (!stop) std::vector<double>(1000).swap(*std::make_unique<std::vector<double>>(10));
  });
  threads.emplace_back([&] {
    while (!stop) (void)write(folder.file("other.h5"), *golden);
  });
#pragma omp parallel for num_threads(4)
  for (int i = 0; i < 16; ++i)
    if (read_guarded(oracle("swa_window")).ok()) ++right;
  stop = true;
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 16);
}
#endif

TEST(GoldenGuarded, AnIdleThreadPoolOfTheParentDoesNotDisturbIt) {
  std::atomic<int> right{0};
#pragma omp parallel num_threads(4)
  ++right;
  EXPECT_TRUE(read_guarded(oracle("swa_window")).ok());
#pragma omp parallel for num_threads(4)
  for (int i = 0; i < 4; ++i)
    if (read_guarded(oracle("swa_window")).ok()) ++right;
  EXPECT_EQ(right, 8);
}

}  // namespace
}  // namespace plumbline::golden::test
