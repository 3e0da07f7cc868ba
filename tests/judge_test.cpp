// The judge: right implementations pass whatever they hold, wrong ones fail where they are wrong.
#include "compare/judge.hpp"

#include <gmock/gmock.h>

#include "reference/contract/specified.hpp"
#include "reference/emulate.hpp"
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

using compare::Judgement;
using compare::StageVerdict;
using testing::HasSubstr;

constexpr DatasetId forward(StageId id) { return DatasetId::forward(id); }

compare::Truth truth_of(const Problem& problem, const PrecisionProfile& profile, int members = 16) {
  compare::JudgeOptions options;
  options.members = members;
  auto truth = compare::make_truth(problem, profile, options);
  if (!truth) throw std::runtime_error(truth.error().text());
  return std::move(*truth);
}

Results emulate(const compare::Truth& truth, const PrecisionProfile& profile, std::uint64_t seed,
                const reference::EmulationFault& fault = {}) {
  auto results = reference::run_emulated(truth.problem, truth.request, profile, reference::draw_variant(seed), fault);
  if (!results) throw std::runtime_error(results.error().text());
  return std::move(*results);
}

Judgement judged(const compare::Truth& truth, const PrecisionProfile& profile, const Results& results) {
  auto judgement = compare::judge(truth, profile, results);
  if (!judgement) throw std::runtime_error(judgement.error().text());
  return std::move(*judgement);
}

std::string first_wrong(const Judgement& judgement) {
  return judgement.first_wrong ? judgement.first_wrong->path() : "none";
}

const compare::DatasetJudgement& of(const Judgement& judgement, DatasetId id) {
  for (const compare::DatasetJudgement& j : judgement.datasets)
    if (j.id == id) return j;
  throw std::runtime_error(id.path() + " was not judged");
}

/// One layer and profile, with a correct run of it.
struct Judged {
  const PrecisionProfile& profile;
  compare::Truth truth;
  Results correct;

  Judged(const std::string& text, const char* profile_name)
      : profile(*find_precision_profile(profile_name)),
        truth(truth_of(case_problem(text), profile)),
        correct(emulate(truth, profile, 1u << 20)) {}

  Judgement judge(const Results& results) const { return judged(truth, profile, results); }
};

TEST(Judge, OrderHoldsEveryDatasetOnceAndInputsBeforeReaders) {
  DatasetSet seen;
  for (const DatasetId id : compare::computation_order()) {
    EXPECT_FALSE(seen.test(id.index())) << id.path();
    for (const DatasetId input : compare::direct_inputs(id))
      EXPECT_TRUE(seen.test(input.index())) << id.path() << " reads " << input.path();
    seen.set(id.index());
  }
  const LayerConfig csa = case_problem("csa,seq=5").config;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    EXPECT_TRUE(seen.test(i) || !DatasetId::from_index(i).exists(csa)) << DatasetId::from_index(i).path();
}

TEST(Judge, PassesAnySubsetOfARightCandidate) {
  const Judged layer("csa,seq=37+5,pad=4,mask=random:0.2", "bf16-fused");
  EXPECT_EQ(first_wrong(layer.judge(layer.correct)), "none");
  Results ends;
  for (const DatasetId id : {forward(StageId::kOut), DatasetId::hidden_gradient(), DatasetId::gradient(WeightId::kWqB)})
    ends.set(id, layer.correct.at(id));
  const Judgement judgement = layer.judge(ends);
  EXPECT_EQ(first_wrong(judgement), "none");
  EXPECT_EQ(judgement.judged, 3);
  EXPECT_THAT(of(judgement, forward(StageId::kOut)).composite_of, testing::ElementsAre("forward/o_latent"));
}

TEST(Judge, NamesTheStageWhereAnErrorStarts) {
  for (const char* profile : {"fp32", "bf16-fused"}) {
    const Judged layer("csa,seq=37", profile);
    for (const StageInfo& stage : kStages) {
      if (stage.id == StageId::kTopk || stage.id == StageId::kMaxLogits || stage.id == StageId::kIndexerLoss) continue;
      reference::EmulationFault fault;
      fault.tamper = [&](DatasetId id, const std::vector<Index>& rows, float* values, Index cols, Index stride) {
        if (!(id == forward(stage.id))) return;
        for (std::size_t r = 0; r < rows.size(); ++r)
          if (rows[r] >= 8)
            for (Index c = 0; c < cols; ++c) values[static_cast<Index>(r) * stride + c] *= 1.05f;
      };
      const Judgement judgement = layer.judge(emulate(layer.truth, layer.profile, 9, fault));
      EXPECT_EQ(first_wrong(judgement), "forward/" + std::string(stage.name)) << profile;
    }
  }
}

/// The error is seen at the first dataset that is held, and said to be of the missing stages too.
TEST(Judge, MergesMissingStagesWithTheirReaders) {
  const Judged layer("hca,ratio=6,seq=37", "fp32");
  reference::EmulationFault fault;
  fault.tamper = [&](DatasetId id, const std::vector<Index>&, float* values, Index, Index) {
    if (id == forward(StageId::kQUp)) values[3] += 0.01f;
  };
  Results held = emulate(layer.truth, layer.profile, 9, fault);
  held.erase(forward(StageId::kQUp));
  const Judgement judgement = layer.judge(held);
  EXPECT_EQ(first_wrong(judgement), "forward/q");
  EXPECT_THAT(of(judgement, forward(StageId::kQ)).composite_of, testing::ElementsAre("forward/q_up"));
}

TEST(Judge, SaysWhatIsInheritedAndWhereElementsAreWrong) {
  const Judged layer("swa,seq=37", "fp32");
  reference::EmulationFault fault;
  fault.tamper = [&](DatasetId id, const std::vector<Index>& rows, float* values, Index, Index stride) {
    if (!(id == forward(StageId::kKv))) return;
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (rows[r] >= 30) values[static_cast<Index>(r) * stride + 5] += 1;
  };
  const Judgement judgement = layer.judge(emulate(layer.truth, layer.profile, 9, fault));
  EXPECT_EQ(first_wrong(judgement), "forward/kv");
  EXPECT_EQ(of(judgement, forward(StageId::kKv)).wrong, 7);
  EXPECT_THAT(of(judgement, forward(StageId::kKv)).wrong_at[0], testing::ElementsAre(30, 31, 32, 33, 34, 35, 36));
  EXPECT_THAT(of(judgement, forward(StageId::kKv)).wrong_at[1], testing::ElementsAre(5));
  EXPECT_EQ(of(judgement, forward(StageId::kAttnOut)).verdict, StageVerdict::kInherited);
  EXPECT_EQ(of(judgement, forward(StageId::kQ)).verdict, StageVerdict::kPass);
}

TEST(Judge, NeverPassesNanOrInfinity) {
  const Judged layer("csa,seq=19", "bf16-fused");
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity})
    for_each_dataset(layer.correct, [&](DatasetId id, const Tensor& tensor) {
      if (tensor.size() == 0 || id == forward(StageId::kTopk)) return;
      const std::vector<bool> rows = specified_rows(id, layer.truth.problem);
      Index e = tensor.size() - 1;
      while (e > 0 && (!rows[static_cast<std::size_t>(e / tensor.row_size())] || !std::isfinite(tensor[e]))) --e;
      Results held = layer.correct;
      held.at(id)[e] = bad;
      const Judgement judgement = layer.judge(held);
      EXPECT_EQ(first_wrong(judgement), id.path()) << bad;
      EXPECT_EQ(of(judgement, id).gate, compare::Gate::kPattern) << id.path();
    });
}

TEST(Judge, FixedValuesAreFixed) {
  const Judged layer("csa,seq=19+6,pad=8,mask=random:0.4", "bf16-fused");
  for (const DatasetId id : {forward(StageId::kOut), DatasetId::hidden_gradient(), DatasetId::gradient(StageId::kQ)}) {
    Results held = layer.correct;
    const Index padding = 22;  // segment 0 ends at row 19, segment 1 begins at row 24
    held.at(id).row(padding)[0] = 1e-30;
    EXPECT_EQ(first_wrong(layer.judge(held)), id.path());
  }
}

TEST(Judge, ScoresOutsideVisibilityMayBeAnything) {
  const Judged layer("csa,seq=19", "fp32");
  Results held = layer.correct;
  Tensor& scores = held.at(forward(StageId::kIndexScores));
  for (Index e = 0; e < scores.size(); ++e)
    if (scores[e] == -kInfinity) scores[e] = e % 2 == 0 ? 1e30 : std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(first_wrong(layer.judge(held)), "none");
}

TEST(Judge, SelectionsAreLegalExactAndExcused) {
  const Judged layer("csa,seq=37,index_topk=3", "fp32");
  const DatasetId topk = forward(StageId::kTopk);
  const auto with = [&](Index row, std::vector<double> picks) {
    Results held = layer.correct;
    std::copy(picks.begin(), picks.end(), held.at(topk).row(row));
    return layer.judge(held);
  };
  const double* good = layer.correct.at(topk).row(36);
  EXPECT_EQ(first_wrong(with(36, {good[2], good[0], good[1]})), "none");
  EXPECT_THAT(of(with(36, {0, 1, 1}), topk).reason, HasSubstr("twice"));
  EXPECT_THAT(of(with(36, {0, 1, 9}), topk).reason, HasSubstr("visible are 9"));
  EXPECT_THAT(of(with(36, {0, 1, -1}), topk).reason, HasSubstr("picks 2 entries, want 3"));
  EXPECT_THAT(of(with(36, {0, 1, 1.5}), topk).reason, HasSubstr("1.5"));
  EXPECT_THAT(of(with(2, {0, -1, -1}), topk).reason, HasSubstr("visible are 0"));
  for (double drop = 0; drop < 9; ++drop) {
    if (drop == good[0] || drop == good[1] || drop == good[2]) continue;
    const Judgement judgement = with(36, {good[0], good[1], drop});
    EXPECT_EQ(first_wrong(judgement), "forward/topk");
    EXPECT_THAT(of(judgement, topk).reason, HasSubstr("not the top-k of the scores beside it"));
    break;
  }
}

/// Scores that are wrong lead to other picks: the picks are right, given the scores.
TEST(Judge, PicksFromWrongScoresAreInherited) {
  const Judged layer("csa,seq=37,index_topk=3", "fp32");
  reference::EmulationFault fault;
  fault.tamper = [&](DatasetId id, const std::vector<Index>& rows, float* values, Index cols, Index stride) {
    if (!(id == forward(StageId::kIndexScores))) return;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (Index c = 0; c < cols; ++c) values[static_cast<Index>(r) * stride + c] *= -1;
  };
  Results held = emulate(layer.truth, layer.profile, 9, fault);
  for (double& score : held.at(forward(StageId::kIndexScores)).values())
    if (score == kInfinity) score = -kInfinity;
  const Judgement judgement = layer.judge(held);
  EXPECT_EQ(first_wrong(judgement), "forward/index_scores");
  EXPECT_EQ(of(judgement, forward(StageId::kTopk)).verdict, StageVerdict::kInherited);
}

/// fp32 angles at position 131072 are off by up to 0.01 radians.
TEST(Judge, LongPositionsNeedAProfileThatSaysSo) {
  const char* text =
      "swa,heads=1,o_groups=1,hidden=5,head_dim=6,rope_dim=4,q_lora_rank=3,o_lora_rank=2,window=2,seq=131073";
  const PrecisionProfile& exact = *find_precision_profile("fp32");
  PrecisionProfile rounded = exact;
  rounded.exact_angles = false;
  const Problem problem = case_problem(text);
  compare::JudgeOptions options;
  options.members = 4;
  for (const StageId stage : {StageId::kQUp, StageId::kQ, StageId::kKvProj, StageId::kKv})
    options.wanted.set(forward(stage).index());
  const auto strict = compare::make_truth(problem, exact, options),
             lenient = compare::make_truth(problem, rounded, options);
  ASSERT_TRUE(strict.ok() && lenient.ok());
  const Results with_rounded_angles = emulate(*lenient, rounded, 77), with_exact_angles = emulate(*strict, exact, 77);
  EXPECT_EQ(first_wrong(judged(*lenient, rounded, with_rounded_angles)), "none");
  EXPECT_EQ(first_wrong(judged(*lenient, rounded, with_exact_angles)), "none");
  EXPECT_EQ(first_wrong(judged(*strict, exact, with_exact_angles)), "none");
  const Judgement judgement = judged(*strict, exact, with_rounded_angles);
  EXPECT_EQ(first_wrong(judgement), "forward/q");
  EXPECT_EQ(of(judgement, forward(StageId::kKv)).verdict, StageVerdict::kFail);
}

TEST(Judge, RefusesWrongShapes) {
  const Judged layer("swa,seq=9", "fp32");
  Results held;
  held.set(forward(StageId::kOut), Tensor({3, 3}));
  const auto judgement = compare::judge(layer.truth, layer.profile, held);
  ASSERT_FALSE(judgement.ok());
  EXPECT_EQ(judgement.error().code, ErrorCode::kFile);
  EXPECT_THAT(judgement.error().text(), HasSubstr("forward/out: has shape [3, 3], want [9, "));
}

}  // namespace
}  // namespace plumbline::tests
