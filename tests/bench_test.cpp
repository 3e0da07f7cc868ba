#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/layer_request.hpp"
#include "reference/implementations.hpp"
#include "tools/plumbline/bench_run.hpp"
#include "tools/plumbline/bench_statistics.hpp"
#include "tools/plumbline/verdicts.hpp"

namespace plumbline::tools {
namespace {

using namespace contract;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kOut = DatasetId::forward(StageId::kOut);
constexpr auto kQ = DatasetId::forward(StageId::kQ);

/// The reference, with what it returns changed by `change(results, whether stages were asked for)`.
class Changed final : public Implementation {
 public:
  using Change = std::function<void(Results&, bool)>;

  explicit Changed(std::string name, Change change = {}) : name_(std::move(name)), change_(std::move(change)) {}

  std::string name() const override { return name_; }
  std::string description() const override { return "the reference, changed"; }
  std::string profile() const override { return profile_name; }
  Promises promises() const override { return {.deterministic = deterministic}; }
  Status supports(const LayerConfig&, const Packing&) const override { return supported; }
  double memory_bytes(const LayerConfig&, const Packing&, const Request&) const override { return needs_bytes; }
  Result<Results> run(const Problem& problem, const Request& request) const override {
    const bool checked = request.wants(kQ);
    (checked ? checked_runs : timed_runs)++;
    if (sequence) sequence->push_back(name_);
    wanted = request.wanted;
    if (before) before(checked);
    if (!checked && timed_error) return *timed_error;
    auto results = find_implementation(based_on)->run(problem, request);
    if (results && change_) change_(*results, checked);
    return results;
  }

  bool deterministic = true;
  Status supported;
  double needs_bytes = 0;
  std::string profile_name = "fp64", based_on = "reference";
  std::function<void(bool)> before;
  std::optional<Error> timed_error;
  std::vector<std::string>* sequence = nullptr;
  mutable int checked_runs = 0, timed_runs = 0;
  mutable DatasetSet wanted;

 private:
  std::string name_;
  Change change_;
};

class BenchTest : public testing::Test {
 protected:
  void SetUp() override {
    reference::register_reference_implementations();
    options.repeat = 3;
    options.warmup = 1;
    options.min_seconds = 0;
  }

  BenchCase run(const std::vector<const Implementation*>& implementations, const std::string& text = "csa,seq=9") {
    return bench_case(*parse_case(text), implementations, options);
  }

  /// What becomes of one implementation beside a right one, which is timed whatever happens.
  BenchEntry beside_a_right_one(const Changed& implementation) {
    const Changed right("right");
    const BenchCase result = run({&right, &implementation});
    EXPECT_EQ(result.entries[0].verdict.outcome, Outcome::kPassed);
    EXPECT_EQ(result.entries[0].seconds.size(), 3u);
    return result.entries[1];
  }

  BenchOptions options;
};

TEST_F(BenchTest, EveryImplementationRunsOnceARoundAndAnotherOneFirst) {
  std::vector<std::string> sequence;
  Changed a("a"), b("b"), c("c");
  for (Changed* one : {&a, &b, &c}) one->sequence = &sequence;
  options.warmup = 2;
  const BenchCase result = run({&a, &b, &c});
  EXPECT_THAT(sequence, ElementsAre("a", "b", "c",                                  // checked
                                    "a", "b", "c", "b", "c", "a",                   // warm-up
                                    "a", "b", "c", "b", "c", "a", "c", "a", "b"));  // timed
  for (const BenchEntry& entry : result.entries) {
    EXPECT_EQ(entry.seconds.size(), 3u);
    for (const double seconds : entry.seconds) EXPECT_GT(seconds, 0);
    EXPECT_TRUE(entry.same_bits);
  }
  EXPECT_EQ(result.tokens, 9);
  EXPECT_GT(result.operations, 0);
}

TEST_F(BenchTest, OnlyWhatThePhaseNamesIsAskedFor) {
  const Changed all("all");
  run({&all});
  EXPECT_EQ(all.wanted, bench::layer_request(true).wanted & all_datasets(parse_case("csa")->config));
  const Changed forward("forward");
  options.phase = Phase::kForward;
  const BenchCase result = run({&forward});
  EXPECT_EQ(forward.wanted, bench::layer_request(false).wanted);
  for (const compare::DatasetVerdict& v : result.entries[0].verdict.datasets) EXPECT_TRUE(v.id.is_forward());
}

TEST_F(BenchTest, RoundsGoOnForTheSecondsAsked) {
  Changed right("right");
  options.repeat = 1;
  options.min_seconds = 0.02;
  const BenchCase result = run({&right}, "swa,seq=5");
  double spent = 0;
  for (const double seconds : result.entries[0].seconds) spent += seconds;
  EXPECT_GE(spent, 0.02);
}

TEST_F(BenchTest, AWrongOneIsNotTimed) {
  const Changed wrong("wrong", [](Results& results, bool) { results.at(kOut)[3] += 1e-6; });
  const BenchEntry entry = beside_a_right_one(wrong);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kFailed);
  ASSERT_NE(entry.verdict.first_wrong(), nullptr);
  EXPECT_EQ(entry.verdict.first_wrong()->id, kOut);
  EXPECT_TRUE(entry.seconds.empty());
  EXPECT_EQ(wrong.timed_runs, 0);
}

TEST_F(BenchTest, AWrongStageBehindARightOutputIsWrongToo) {
  const Changed wrong("wrong", [](Results& results, bool) {
    if (results.has(kQ)) results.at(kQ)[0] += 1e-3;
  });
  const BenchEntry entry = beside_a_right_one(wrong);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kFailed);
  EXPECT_EQ(wrong.timed_runs, 0);
}

TEST_F(BenchTest, OtherBitsWhenTimedAreWrongWhereEqualOnesArePromised) {
  const Changed moving("moving", [](Results& results, bool checked) {
    double& value = results.at(kOut)[5];
    if (!checked) value = std::nextafter(value, 1e9);
  });
  const BenchEntry entry = beside_a_right_one(moving);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kFailed);
  EXPECT_TRUE(entry.seconds.empty());
  ASSERT_NE(entry.verdict.first_wrong(), nullptr);
  EXPECT_EQ(entry.verdict.first_wrong()->id, kOut);
  EXPECT_THAT(entry.verdict.first_wrong()->worst, ElementsAre(0, 5));
  EXPECT_THAT(failure_report(entry.verdict), HasSubstr("plumbline bench 'csa,model=tiny,seq=9' --impl moving"));
}

TEST_F(BenchTest, OtherBitsOfALaterRoundAreSeen) {
  int timed = 0;
  const Changed moving("moving", [&](Results& results, bool checked) {
    if (!checked && ++timed == 3) results.at(kOut)[0] = -results.at(kOut)[0];
  });
  EXPECT_EQ(beside_a_right_one(moving).verdict.outcome, Outcome::kFailed);
}

TEST_F(BenchTest, OtherBitsAreJudgedAgainWhereNoneArePromised) {
  const auto nudge = [](double factor) {
    return [factor](Results& results, bool checked) {
      if (!checked) results.at(kOut)[5] *= 1 + factor;
    };
  };
  Changed harmless("harmless", nudge(std::numeric_limits<double>::epsilon()));
  harmless.deterministic = false;
  BenchEntry entry = beside_a_right_one(harmless);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kPassed);
  EXPECT_EQ(entry.seconds.size(), 3u);
  EXPECT_FALSE(entry.same_bits);
  Changed cheating("cheating", nudge(1e-3));
  cheating.deterministic = false;
  entry = beside_a_right_one(cheating);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kFailed);
  ASSERT_NE(entry.verdict.first_wrong(), nullptr);
  EXPECT_EQ(entry.verdict.first_wrong()->id, kOut);
  EXPECT_TRUE(entry.seconds.empty());
}

TEST_F(BenchTest, OtherBitsOfALowerPrecisionAreJudgedByItsBudgets) {
  for (const double factor : {1e-7, 1e-2}) {
    Changed moving("moving", [=](Results& results, bool checked) {
      if (!checked) results.at(kOut)[5] *= 1 + factor;
    });
    moving.deterministic = false;
    moving.profile_name = "fp32";
    moving.based_on = "reference-fp32";
    const BenchEntry entry = beside_a_right_one(moving);
    EXPECT_EQ(entry.verdict.outcome, factor < 1e-3 ? Outcome::kPassed : Outcome::kFailed);
    EXPECT_EQ(entry.seconds.empty(), factor > 1e-3);
  }
}

TEST_F(BenchTest, ATimedRunThatReturnsLessIsWrongWhateverIsPromised) {
  Changed lazy("lazy", [](Results& results, bool checked) {
    if (!checked) results.erase(DatasetId::hidden_gradient());
  });
  lazy.deterministic = false;
  const BenchEntry entry = beside_a_right_one(lazy);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kFailed);
  ASSERT_NE(entry.verdict.first_wrong(), nullptr);
  EXPECT_EQ(entry.verdict.first_wrong()->id, DatasetId::hidden_gradient());
}

TEST_F(BenchTest, WhatIsDeclinedIsNotTimed) {
  Changed declining("declining");
  declining.supported = Error{ErrorCode::kDeclined, "no compressed layers", "declining"};
  const BenchEntry entry = beside_a_right_one(declining);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kDeclined);
  EXPECT_EQ(declining.checked_runs + declining.timed_runs, 0);
}

TEST_F(BenchTest, WhoLacksGradientsIsDeclinedForThemAlone) {
  const Changed forward("forward", [](Results& results, bool) {
    for (std::size_t i = 0; i < DatasetId::kCount; ++i)
      if (DatasetId::from_index(i).is_gradient()) results.erase(DatasetId::from_index(i));
  });
  const BenchEntry entry = beside_a_right_one(forward);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kDeclined);
  ASSERT_TRUE(entry.verdict.problem);
  EXPECT_THAT(entry.verdict.problem->text(), HasSubstr("--phase forward"));
  EXPECT_EQ(forward.timed_runs, 0);
  options.phase = Phase::kForward;
  EXPECT_EQ(beside_a_right_one(forward).seconds.size(), 3u);
}

TEST_F(BenchTest, ErrorsOfTimedRunsStopOneImplementationAlone) {
  Changed broken("broken");
  broken.timed_error = Error{ErrorCode::kCandidate, "crashed", "broken"};
  BenchEntry entry = beside_a_right_one(broken);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kError);
  EXPECT_EQ(exit_code_of({entry.verdict}), 5);
  EXPECT_EQ(broken.timed_runs, 1);
  Changed throwing("throwing");
  throwing.before = [](bool checked) {
    if (!checked) throw std::runtime_error("thrown");
  };
  entry = beside_a_right_one(throwing);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kError);
  ASSERT_TRUE(entry.verdict.problem);
  EXPECT_THAT(entry.verdict.problem->text(), HasSubstr("thrown"));
}

TEST_F(BenchTest, MemoryBeyondTheLimitIsAnError) {
  Changed large("large");
  large.needs_bytes = 1e9;
  options.max_memory_bytes = 1e8;
  const BenchEntry entry = beside_a_right_one(large);
  EXPECT_EQ(entry.verdict.outcome, Outcome::kError);
  ASSERT_TRUE(entry.verdict.problem);
  EXPECT_EQ(entry.verdict.problem->code, ErrorCode::kMemory);
  EXPECT_EQ(large.checked_runs + large.timed_runs, 0);
}

TEST_F(BenchTest, ARequestToStopEndsTheRounds) {
  bool stop = false;
  Changed right("right");
  const Changed other("other");
  right.before = [&](bool checked) { stop = stop || !checked; };
  options.cancelled = [&] { return stop; };
  options.warmup = 0;
  options.repeat = 100;
  run({&right, &other});
  EXPECT_EQ(right.timed_runs, 1);
  EXPECT_EQ(other.timed_runs, 0) << "the round is not ended first";
}

TEST(BenchStatistics, Quartiles) {
  const Summary s = summarise({5, 1, 4, 2, 3});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.min, 1);
  EXPECT_EQ(s.max, 5);
  EXPECT_EQ(s.lower, 2);
  EXPECT_EQ(s.upper, 4);
  EXPECT_DOUBLE_EQ(s.spread(), 2.0 / 3);
  EXPECT_EQ(summarise({1, 2}).median, 1.5);
  EXPECT_EQ(summarise({7}).upper, 7);
  EXPECT_EQ(summarise({}).spread(), 0);
}

TEST(BenchStatistics, RatiosAreTakenRoundByRound) {
  // The second round is disturbed: both take ten times as long.
  EXPECT_THAT(round_ratios({2, 20, 2}, {1, 10, 1}), ElementsAre(2, 2, 2));
  EXPECT_THAT(round_ratios({2, 2}, {}), ElementsAre());
}

TEST(BenchStatistics, AGrowthIsMoreThanBothScatter) {
  const Summary before{1.0, 0.9, 2, 0.95, 1.05}, same{1.1, 1, 3, 1.05, 1.2}, grown{1.5, 1.3, 3, 1.45, 1.6};
  EXPECT_FALSE(has_grown(before, same));
  EXPECT_TRUE(has_grown(before, grown));
  EXPECT_FALSE(has_grown(grown, before)) << "a shrunk one has not grown";
}

}  // namespace
}  // namespace plumbline::tools
