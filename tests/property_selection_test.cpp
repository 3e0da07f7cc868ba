// How many entries are picked, and which of those that tie.
#include "tests/naive_attention.hpp"

namespace plumbline::tests {
namespace {

constexpr DatasetId kTopk = DatasetId::forward(StageId::kTopk), kScores = DatasetId::forward(StageId::kIndexScores);

std::vector<Index> picks_of(const Results& results, Index row) {
  std::vector<Index> picks;
  const Tensor& topk = results.at(kTopk);
  for (Index k = 0; k < topk.row_size(); ++k)
    if (topk.row(row)[k] >= 0) picks.push_back(static_cast<Index>(topk.row(row)[k]));
  std::sort(picks.begin(), picks.end());
  return picks;
}

/// The picks by the definition: count how many visible entries come before each one.
std::vector<Index> picks_by_definition(const double* scores, Index visible, Index k) {
  std::vector<Index> picks;
  for (Index g = 0; g < visible; ++g) {
    Index before = 0;
    for (Index other = 0; other < visible; ++other)
      before += scores[other] > scores[g] || (scores[other] == scores[g] && other < g);
    if (before < k) picks.push_back(g);
  }
  return picks;
}

void expect_picks_by_definition(const Problem& problem, const Results& results) {
  const LayerConfig& c = problem.config;
  for (const Index row : real_rows(problem.packing)) {
    const Index b = problem.packing.segment_of(row), t = row - problem.packing.offsets[static_cast<std::size_t>(b)];
    const Index visible = is_valid(problem, row) ? visible_entries(t, c.ratio, problem.packing.groups(b, c.ratio)) : 0;
    EXPECT_EQ(picks_of(results, row), picks_by_definition(results.at(kScores).row(row), visible, c.index_topk))
        << "row " << row;
    for (Index g = 0; g < results.at(kScores).row_size(); ++g)
      EXPECT_EQ(results.at(kScores).row(row)[g] == -kInfinity, g >= visible) << "row " << row << " entry " << g;
  }
}

class SelectionProperty : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, SelectionProperty, testing::ValuesIn(indexing_kinds()), kind_name);

TEST_P(SelectionProperty, AnyNumberOfPicks) {
  Problem problem = case_problem(GetParam(), "seq=37+3+50,pad=7,mask=random:0.2,seed=71");
  for (const Index k : {1, 2, 6, 11, 12, 13, 4096}) {
    SCOPED_TRACE("topk " + std::to_string(k));
    problem.config.index_topk = k;
    const Results results = run(problem);
    EXPECT_TRUE(no_nan(results));
    expect_picks_by_definition(problem, results);
    expect_naive_attention(problem, results, 1e-13);
  }
}

TEST_P(SelectionProperty, EnoughPicksMeanNoSelection) {
  Problem indexed = case_problem(GetParam(), "seq=37+18,seed=72");
  indexed.config.index_topk = 1000;
  Problem dense = indexed;
  dense.config.indexer = false;
  EXPECT_TRUE(same_bits(run(dense), run(indexed), [](DatasetId id) { return !is_indexer(id); }));
}

TEST_P(SelectionProperty, TiesGoToTheSmallerIndex) {
  const Problem problem = case_problem(GetParam(), "data=ties,seq=61+18,seed=73");
  const Results results = run(problem);
  bool chosen = false;
  for (const Index row : real_rows(problem.packing)) {
    const std::vector<Index> picks = picks_of(results, row);
    const double* scores = results.at(kScores).row(row);
    for (Index g = 0; g < results.at(kScores).row_size() && scores[g] != -kInfinity; ++g) {
      ASSERT_EQ(scores[g], 0);
      chosen |= g >= problem.config.index_topk;
    }
    for (std::size_t k = 0; k < picks.size(); ++k) EXPECT_EQ(picks[k], static_cast<Index>(k)) << "row " << row;
  }
  EXPECT_TRUE(chosen) << "no row sees more entries than it picks";
  EXPECT_TRUE(no_nan(results));
}

/// Scores that round to -0 beside +0 ones: a weight of minus the smallest number, times products that the relu makes +0
/// or leaves small, times Di^(-1/2).
TEST(Selection, ZerosOfBothSignsTie) {
  Problem problem = case_problem("csa,ratio=3,index_heads=1,index_dim=64,index_topk=2,seq=60,seed=74");
  Tensor& weight = problem.weight(WeightId::kIndexerWeightsProj);
  std::fill(weight.values().begin(), weight.values().end(), 0.0);
  weight[0] = -std::numeric_limits<double>::denorm_min();
  for (Index row = 0; row < problem.packing.tokens(); ++row) problem.hidden.row(row)[0] = 1;
  for (double& value : problem.weight(WeightId::kIndexerWqB).values()) value *= 0.1;
  const Results results = run(problem);
  expect_picks_by_definition(problem, results);
  Index decided_by_index = 0;
  for (Index row = 0; row < problem.packing.tokens(); ++row) {
    const double* scores = results.at(kScores).row(row);
    const std::vector<Index> picks = picks_of(results, row);
    for (Index g = 0; g < results.at(kScores).row_size(); ++g)
      // A picked -0 before a +0 that is not picked: wrong by sign, right by index.
      for (const Index pick : picks)
        decided_by_index += scores[g] == 0 && !std::signbit(scores[g]) && pick < g && std::signbit(scores[pick]) &&
                            scores[pick] == 0 && std::find(picks.begin(), picks.end(), g) == picks.end();
  }
  EXPECT_GT(decided_by_index, 0);
}

}  // namespace
}  // namespace plumbline::tests
