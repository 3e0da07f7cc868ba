// Isolated evaluation: each stage is computed from what the candidate holds.
#include "reference/isolate.hpp"

#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

reference::Isolated isolate(const Problem& problem, const Results& held) {
  Request request;
  request.wanted = all_datasets(problem.config);
  auto isolated = reference::run_isolated(problem, held, request);
  if (!isolated) throw std::runtime_error(isolated.error().text());
  return std::move(*isolated);
}

class Isolate : public testing::TestWithParam<Kind> {};

TEST_P(Isolate, ATruthfulCandidateChangesNothing) {
  const Problem problem = case_problem(GetParam(), "seq=27+3+9,pad=4,mask=random:0.3");
  const Results exact = run(problem);
  EXPECT_TRUE(same_bits(exact, isolate(problem, {}).truth));
  EXPECT_TRUE(same_bits(exact, isolate(problem, exact).truth));
}

/// A wrong stage is wrong alone: its own truth stays, and only what reads it directly moves.
TEST_P(Isolate, OnlyDirectReadersSeeAWrongStage) {
  const Problem problem = case_problem(GetParam(), "seq=27");
  const Results exact = run(problem);
  for (const StageInfo& stage : kStages) {
    const DatasetId id = DatasetId::forward(stage.id);
    if (!exact.has(id) || stage.id == StageId::kTopk || exact.at(id).size() == 0 ||
        !present(stage.presence, problem.config))
      continue;
    Results held = exact;
    for (double& value : held.at(id).values())
      if (std::isfinite(value)) value *= 1.25;
    const reference::Isolated isolated = isolate(problem, held);
    EXPECT_TRUE(same_bits(exact, isolated.truth, [&](DatasetId other) { return other == id; })) << id.path();
    for (const StageInfo& other : kStages) {
      const DatasetId reader = DatasetId::forward(other.id);
      if (!exact.has(reader) || other.id == stage.id || other.id == StageId::kTopk) continue;
      const bool reads =
          (" " + std::string(other.inputs) + " ").find(" " + std::string(stage.name) + " ") != std::string::npos;
      if (reads) continue;
      EXPECT_TRUE(same_bits(exact, isolated.truth, [&](DatasetId d) { return d == reader; }))
          << id.path() << " moves " << reader.path();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Isolate, testing::ValuesIn(all_kinds()), kind_name);

TEST(Isolate, TakesTheCandidatesSelectionsAsFarAsTheyAreLegal) {
  const Problem problem = case_problem("csa,seq=37,index_topk=3");
  const DatasetId topk = DatasetId::forward(StageId::kTopk);
  Results held;
  held.set(topk, run(problem).at(topk));
  Tensor& picks = held.at(topk);
  for (Index k = 0; k < 3; ++k) picks.row(36)[k] = static_cast<double>(k);  // legal, and in general not the best
  picks.row(30)[0] = 1e9;
  picks.row(31)[1] = std::numeric_limits<double>::quiet_NaN();
  picks.row(32)[2] = picks.row(32)[1];
  const reference::Isolated isolated = isolate(problem, held);
  EXPECT_EQ(isolated.values.at(topk).row(36)[0], 0);
  EXPECT_EQ(isolated.values.at(topk).row(36)[2], 2);
  for (const Index row : {30, 31, 32}) EXPECT_EQ(isolated.values.at(topk).row(row)[2], -1) << row;
}

}  // namespace
}  // namespace plumbline::tests
