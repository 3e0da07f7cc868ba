// The comparison sees a change of 1e-9 of a tensor's largest value at any specified place of any dataset, and nothing
// that the contract leaves open.
#include "compare/golden_rule.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "reference/contract/case.hpp"
#include "reference/contract/specified.hpp"
#include "reference/exact.hpp"

namespace plumbline::compare {
namespace {

using namespace contract;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct Scene {
  Problem problem;
  Results results;
};

Scene scene(const std::string& text) {
  auto item = parse_case(text);
  EXPECT_TRUE(item.ok()) << text;
  Scene s{*make_problem(*item), {}};
  Request request;
  request.wanted = all_datasets(s.problem.config);
  auto results = reference::run_exact<double>(s.problem, request);
  EXPECT_TRUE(results.ok());
  s.results = std::move(*results);
  return s;
}

/// The verdict on one dataset after `spoil` changed the candidate's copy of it.
template <typename Spoil>
DatasetVerdict judge(const Scene& s, DatasetId id, Spoil spoil) {
  Results got = s.results;
  spoil(got.at(id));
  for (const DatasetVerdict& v : compare_by_golden_rule(s.problem, s.results, got)) {
    if (v.id == id) return v;
    EXPECT_NE(v.verdict, Verdict::kFail) << v.id.path() << " fails although only " << id.path() << " was changed";
  }
  ADD_FAILURE() << id.path() << " was not judged";
  return {.id = id};
}

double largest(const Tensor& tensor, const std::vector<bool>& rows) {
  double scale = 0;
  for (Index i = 0; i < tensor.size(); ++i)
    if (rows[static_cast<std::size_t>(i / std::max<Index>(tensor.row_size(), 1))] && std::isfinite(tensor[i]))
      scale = std::max(scale, std::abs(tensor[i]));
  return scale;
}

/// The same, with nothing but this dataset and what it is judged by: cheap enough for many draws.
template <typename Spoil>
DatasetVerdict judge_alone(const Scene& s, DatasetId id, Spoil spoil) {
  Results want;
  want.set(id, s.results.at(id));
  if (id == DatasetId::forward(StageId::kIndexerLoss))
    for (const StageId stage : {StageId::kTeacher, StageId::kIndexScores, StageId::kTopk})
      if (const Tensor* tensor = s.results.find(DatasetId::forward(stage)))
        want.set(DatasetId::forward(stage), *tensor);
  Results got;
  spoil(got.set(id, s.results.at(id)));
  for (const DatasetVerdict& v : compare_by_golden_rule(s.problem, want, got))
    if (v.id == id) return v;
  ADD_FAILURE() << id.path() << " was not judged";
  return {.id = id};
}

class GoldenRule : public testing::TestWithParam<const char*> {};

TEST_P(GoldenRule, IdenticalResultsPass) {
  const Scene s = scene(GetParam());
  for (const DatasetVerdict& v : compare_by_golden_rule(s.problem, s.results, s.results)) {
    EXPECT_NE(v.verdict, Verdict::kFail) << v.id.path();
    EXPECT_EQ(v.error, 0) << v.id.path();
  }
}

TEST_P(GoldenRule, OneChangedElementFailsWhereSpecifiedAndOnlyThere) {
  const Scene s = scene(GetParam());
  std::mt19937_64 engine(3);
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!s.results.has(id) || s.results.at(id).size() == 0 || id == DatasetId::forward(StageId::kTopk)) continue;
    const Tensor& tensor = s.results.at(id);
    const std::vector<bool> rows = specified_rows(id, s.problem);
    const double scale = largest(tensor, rows), step = 1e-9 * (scale > 0 ? scale : 1);
    for (int draw = 0; draw < 40; ++draw) {
      const Index last = tensor.size() - 1;
      const Index e = draw == 0 ? 0 : draw == 1 ? last : std::uniform_int_distribution<Index>(0, last)(engine);
      const bool specified = rows[static_cast<std::size_t>(tensor.rank() == 0 ? 0 : e / tensor.row_size())];
      const auto change = [&](Tensor& got) { got[e] = std::isfinite(got[e]) ? got[e] + step : 1e300; };
      const DatasetVerdict v = draw < 3 ? judge(s, id, change) : judge_alone(s, id, change);
      EXPECT_EQ(v.verdict == Verdict::kFail, specified) << id.path() << " element " << e << " error " << v.error;
      EXPECT_EQ(v.wrong, specified ? 1 : 0) << id.path();
      for (const double bad : {kNan, kInf, -kInf}) {
        if (tensor[e] == bad) continue;
        const DatasetVerdict w = judge_alone(s, id, [&](Tensor& got) { got[e] = bad; });
        EXPECT_EQ(w.verdict == Verdict::kFail, specified) << id.path() << " element " << e << " holding " << bad;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, GoldenRule,
                         testing::Values("swa,seq=20+5,pad=4,mask=random:0.3", "csa,seq=29+3+8,pad=8,mask=random:0.3",
                                         "csa,seq=37,loss=dense,per_token_loss=on", "csa,indexer=off,seq=21,pad=8",
                                         "hca,ratio=8,seq=21+9,pad=16", "csa,sink=inf:1,data=peaky,seq=40"));

TEST(GoldenRuleSelection, ComparesRowsAsSets) {
  const Scene s = scene("csa,seq=40");
  const DatasetId topk = DatasetId::forward(StageId::kTopk);
  const Index last = 39;
  ASSERT_EQ(s.results.at(topk).row_size(), 7);
  const auto row = [&](Tensor& t) { return t.row(last); };
  EXPECT_EQ(judge(s, topk, [&](Tensor& t) { std::reverse(row(t), row(t) + 7); }).verdict, Verdict::kPass);
  const auto fails = [&](auto spoil) {
    const DatasetVerdict v = judge(s, topk, spoil);
    EXPECT_EQ(v.verdict, Verdict::kFail);
    EXPECT_EQ(v.worst, (std::vector<Index>{last}));
    EXPECT_EQ(v.error, 1);
  };
  fails([&](Tensor& t) { row(t)[0] = row(t)[1]; });  // a duplicate
  fails([&](Tensor& t) { row(t)[3] = -1; });         // one too few
  fails([&](Tensor& t) {                             // another entry
    double other = 0;
    while (std::find(row(t), row(t) + 7, other) != row(t) + 7) ++other;
    row(t)[2] = other;
  });
  fails([&](Tensor& t) { row(t)[4] = kNan; });
  fails([&](Tensor& t) { row(t)[0] = 1e300; });
}

TEST(GoldenRuleShape, MissingAndMisshapenDatasetsAreNotPasses) {
  const Scene s = scene("csa");
  Results got = s.results;
  const DatasetId q = DatasetId::forward(StageId::kQ), out = DatasetId::forward(StageId::kOut);
  got.erase(q);
  got.set(out, Tensor({37, 39}));
  for (const DatasetVerdict& v : compare_by_golden_rule(s.problem, s.results, got)) {
    EXPECT_EQ(v.verdict == Verdict::kNotCompared, v.id == q) << v.id.path();
    if (v.id == out) {
      EXPECT_EQ(v.verdict, Verdict::kFail);
      EXPECT_NE(v.reason.find("[37, 39], want [37, 40]"), std::string::npos) << v.reason;
    }
  }
}

TEST(GoldenRuleShape, ExpectedTensorsOfAnotherShapeFail) {
  const Scene s = scene("csa");
  const DatasetId out = DatasetId::forward(StageId::kOut);
  Results odd = s.results;
  odd.set(out, Tensor({3, 40}));
  for (const DatasetVerdict& v : compare_by_golden_rule(s.problem, odd, odd)) {
    EXPECT_EQ(v.verdict == Verdict::kFail, v.id == out) << v.id.path() << " " << v.reason;
    EXPECT_EQ(v.reason.find("the problem gives it [37, 40]") != std::string::npos, v.id == out) << v.reason;
  }
}

TEST(GoldenRuleLoss, IsJudgedByItsCondition) {
  const Scene s = scene("csa");
  const DatasetId loss = DatasetId::forward(StageId::kIndexerLoss);
  const double condition = loss_condition(s.problem, s.results);
  ASSERT_GT(condition, 0);
  EXPECT_EQ(judge(s, loss, [&](Tensor& t) { t[0] += 0.9e-13 * condition; }).verdict, Verdict::kPass);
  EXPECT_EQ(judge(s, loss, [&](Tensor& t) { t[0] += 1.2e-13 * condition; }).verdict, Verdict::kFail);
}

TEST(GoldenRuleLoss, SaysWhatItWasJudgedByWithoutATeacher) {
  const Scene s = scene("csa");
  const DatasetId loss = DatasetId::forward(StageId::kIndexerLoss), teacher = DatasetId::forward(StageId::kTeacher);
  const double condition = loss_condition(s.problem, s.results);
  Results want = s.results, got = s.results;
  want.erase(teacher);
  got.at(loss)[0] += 0.9e-13 * condition;
  const auto verdict = [&] {
    for (const DatasetVerdict& v : compare_by_golden_rule(s.problem, want, got))
      if (v.id == loss) return v;
    return DatasetVerdict{.id = loss};
  };
  EXPECT_EQ(verdict().verdict, Verdict::kPass);
  EXPECT_NE(verdict().reason.find("results under test"), std::string::npos) << verdict().reason;
  // Whatever shape or picks a candidate has, the condition is not read from where there is nothing.
  got.at(loss)[0] = s.results.at(loss)[0];
  got.set(DatasetId::forward(StageId::kTopk), Tensor(s.results.at(DatasetId::forward(StageId::kTopk)).shape(), 1e9));
  EXPECT_EQ(verdict().verdict, Verdict::kPass);
  got.set(teacher, Tensor({2, 2}));
  EXPECT_EQ(verdict().verdict, Verdict::kPass);
  EXPECT_NE(verdict().reason.find("relative to itself"), std::string::npos) << verdict().reason;
  got.at(loss)[0] *= 1 + 1e-9;
  EXPECT_EQ(verdict().verdict, Verdict::kFail);
}

TEST(GoldenRuleLoss, ConditionIsTheSumOfTheFormula) {
  const Scene s = scene("csa,seq=23,loss=dense");
  const Tensor& t = s.results.at(DatasetId::forward(StageId::kTeacher));
  const Tensor& p = s.results.at(DatasetId::forward(StageId::kPredict));
  double sum = 0;
  for (Index i = 0; i < t.size(); ++i)
    if (t[i] > 0) sum += t[i] * (std::abs(std::log(t[i])) + std::abs(std::log(p[i])));
  EXPECT_NEAR(loss_condition(s.problem, s.results), 0.01 * sum / 23, 1e-12 * sum);
}

TEST(GoldenRuleKl, ConditionIsUsedOnlyWhenAsked) {
  const Scene s = scene("csa");
  const DatasetId kl = DatasetId::forward(StageId::kKlRows);
  const std::vector<double> conditions = kl_conditions(s.problem, s.results);
  const double unit = *std::max_element(conditions.begin(), conditions.end());
  Results got = s.results;
  got.at(kl)[30] += 0.9e-13 * unit;
  Limits limits;
  for (const bool by_condition : {false, true}) {
    limits.kl_by_condition = by_condition;
    for (const DatasetVerdict& v : compare_by_golden_rule(s.problem, s.results, got, limits))
      EXPECT_EQ(v.verdict == Verdict::kPass, by_condition || !(v.id == kl)) << v.id.path();
  }
}

}  // namespace
}  // namespace plumbline::compare
