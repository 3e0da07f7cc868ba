// Ranks that own consecutive rows of one batch, behind the communicator, against the whole batch in one run.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>

#include "reference/run_layer.hpp"
#include "tests/problems.hpp"
#include "tests/thread_communicator.hpp"

namespace plumbline::reference {
namespace {

using contract::LayerConfig;
using contract::Packing;
using contract::Problem;
using contract::Results;

/// Adds one rank's tensor to the whole: sums of contributions, values that every rank has, or rows that one rank has
/// and the others leave at their fill value.
void merge(DatasetId id, const contract::Tensor& part, contract::Tensor& whole) {
  const bool replicated =
      id == DatasetId::forward(StageId::kMaxLogits) || id == DatasetId::forward(StageId::kIndexerLoss);
  const bool summed = id.weight() || id == DatasetId::hidden_gradient() || id == DatasetId::gradient(StageId::kKv) ||
                      id == DatasetId::gradient(StageId::kKvProj);
  const bool scores = id == DatasetId::forward(StageId::kIndexScores), picks = id == DatasetId::forward(StageId::kTopk);
  const double fill = scores ? -std::numeric_limits<double>::infinity() : picks ? -1 : 0;
  for (Index e = 0; e < whole.size(); ++e) {
    if (replicated) {
      EXPECT_EQ(std::bit_cast<std::uint64_t>(part[e]), std::bit_cast<std::uint64_t>(whole[e])) << id.path();
    } else if (summed) {
      whole[e] += part[e];
    } else if (part[e] != fill) {
      whole[e] = part[e];
    }
  }
}

/// Runs `ranks` ranks over the physical rows and puts their results together: sums of gradients, rows of values.
Results run_ranks(const Problem& problem, Index ranks, std::set<contract::Collective> broken = {}) {
  contract::Request request;
  request.wanted = contract::all_datasets(problem.config);
  std::vector<Results> parts(static_cast<std::size_t>(ranks));
  tests::ThreadGroup<double> group(ranks, tests::Sharing::kTokens, std::move(broken));
  const Index tokens = problem.packing.tokens();
  group.run([&](Index rank, contract::Communicator<double>& communicator) {
    Shard<double> shard;
    shard.rows = TokenRange{rank * tokens / ranks, (rank + 1) * tokens / ranks};
    shard.communicator = &communicator;
    auto results = run_layer(problem, request, ExactPolicy<double>{}, shard);
    ASSERT_TRUE(results.ok()) << results.error().text();
    parts[static_cast<std::size_t>(rank)] = std::move(*results);
  });
  Results whole;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!parts[0].has(id)) continue;
    contract::Tensor total = parts[0].at(id);
    for (Index r = 1; r < ranks; ++r) merge(id, parts[static_cast<std::size_t>(r)].at(id), total);
    whole.set(id, std::move(total));
  }
  return whole;
}

/// Largest difference over all datasets, each in units of its own largest magnitude; infinite where NaN or infinities
/// differ.
double largest_difference(const Results& want, const Results& got) {
  double largest = 0;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!want.has(id)) continue;
    double scale = 0, difference = 0;
    for (Index e = 0; e < want.at(id).size(); ++e) {
      const double a = want.at(id)[e], b = got.at(id)[e];
      if (!std::isfinite(a) || !std::isfinite(b)) {
        if (a != b) return std::numeric_limits<double>::infinity();
        continue;
      }
      scale = std::max(scale, std::abs(a));
      difference = std::max(difference, std::abs(a - b));
    }
    largest = std::max(largest, scale > 0 ? difference / scale : difference);
  }
  return largest;
}

Results run_whole(const Problem& problem) {
  contract::Request request;
  request.wanted = contract::all_datasets(problem.config);
  auto results = run_layer(problem, request, ExactPolicy<double>{});
  EXPECT_TRUE(results.ok());
  return std::move(*results);
}

struct RangeCase {
  const char* name;
  Index ratio;
  bool overlap, indexer, sparse_loss;
};

class TokenRangeTest : public testing::TestWithParam<RangeCase> {
 protected:
  /// Uneven segments, padding, masked rows: ranks start inside segments, groups, padding; some own no group.
  static Problem problem() {
    LayerConfig config = tests::small_config(GetParam().ratio, GetParam().overlap, GetParam().indexer);
    config.sparse_loss = GetParam().sparse_loss;
    Packing packing = contract::make_packing({21, 3, 0, 18, 1}, 8);
    for (const Index row : {2, 9, 25, 41}) packing.row_valid[static_cast<std::size_t>(row)] = 0;
    return tests::random_problem(config, packing, 11);
  }
};

TEST_P(TokenRangeTest, RanksTogetherEqualTheWhole) {
  const Problem whole = problem();
  const Results want = run_whole(whole);
  for (const Index ranks : {1, 2, 3, 4, 5, 8})
    EXPECT_LT(largest_difference(want, run_ranks(whole, ranks)), 1e-12) << ranks << " ranks";
}

TEST_P(TokenRangeTest, SeesAMissingCollective) {
  const Problem whole = problem();
  const Results want = run_whole(whole);
  std::vector<contract::Collective> collectives;
  if (GetParam().ratio > 1) collectives = {contract::Collective::kCCompressedKv, contract::Collective::kCDCompressedKv};
  if (GetParam().indexer)
    collectives.insert(collectives.end(), {contract::Collective::kCIndexK, contract::Collective::kCDIndexK});
  for (const contract::Collective c : collectives)
    EXPECT_GT(largest_difference(want, run_ranks(whole, 3, {c})), 1e-6) << "collective " << static_cast<int>(c);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenRangeTest,
                         testing::Values(RangeCase{"swa", 0, false, false, true}, RangeCase{"csa", 4, true, true, true},
                                         RangeCase{"csa_dense_loss", 4, true, true, false},
                                         RangeCase{"dense_mode", 4, true, false, true},
                                         RangeCase{"hca", 6, false, false, true}),
                         [](const auto& test) { return test.param.name; });

TEST(TokenRange, RefusesRowsOutsideTheBatch) {
  const Problem whole = tests::random_problem(tests::small_config(0, false, false), contract::make_packing({9}, 1), 1);
  Shard<double> shard;
  shard.rows = TokenRange{4, 10};
  const auto results = run_layer(whole, {}, ExactPolicy<double>{}, shard);
  ASSERT_FALSE(results.ok());
  EXPECT_EQ(results.error().code, contract::ErrorCode::kUsage);
}

}  // namespace
}  // namespace plumbline::reference
