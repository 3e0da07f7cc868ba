// Ranks that share a layer's heads, behind the communicator, against the whole layer in one run.
#include "reference/run_layer.hpp"
#include "tests/layer_runs.hpp"
#include "tests/thread_communicator.hpp"

namespace plumbline::reference {
namespace {

using namespace tests;

/// Whether a rank has only its own heads', or output groups', part of a dataset. All else it has whole.
bool is_sharded(DatasetId id) {
  return has_axis(id, contract::Axis::kHead) || has_axis(id, contract::Axis::kHeadByDim) ||
         has_axis(id, contract::Axis::kGroupByRank);
}

std::vector<Results> run_ranks(const Problem& problem, Index ranks, std::set<contract::Collective> broken = {}) {
  std::vector<Results> parts(static_cast<std::size_t>(ranks));
  ThreadGroup<double> group(ranks, Sharing::kHeads, std::move(broken));
  group.run([&](Index rank, contract::Communicator<double>& communicator) {
    Request request;
    request.wanted = all_datasets(problem.config);
    Shard<double> shard;
    const Index heads = problem.config.heads / ranks;
    shard.heads = HeadRange{rank * heads, heads};
    shard.communicator = &communicator;
    auto results = run_layer(problem, request, ExactPolicy<double>{}, shard);
    ASSERT_TRUE(results.ok()) << results.error().text();
    parts[static_cast<std::size_t>(rank)] = std::move(*results);
  });
  return parts;
}

/// The whole layer from its ranks: sharded datasets put together, and of replicated ones rank 0's.
Results reassembled(const std::vector<Results>& parts) {
  Results whole = parts[0];
  for_each_dataset(parts[0], [&](DatasetId id, const contract::Tensor& tensor) {
    if (!is_sharded(id)) return;
    for (std::size_t r = 1; r < parts.size(); ++r)
      for (Index e = 0; e < tensor.size(); ++e) {
        double& value = whole.at(id)[e];
        const double part = parts[r].at(id)[e];
        if (part == fill_of(id)) continue;
        EXPECT_EQ(value, fill_of(id)) << id.path() << " element " << e << " comes from two ranks";
        value = part;
      }
  });
  return whole;
}

bool replicas_agree(const std::vector<Results>& parts) {
  return std::all_of(parts.begin(), parts.end(), [&](const Results& part) {
    return static_cast<bool>(same_bits(parts[0], part, [](DatasetId id) { return !is_sharded(id); }));
  });
}

class ShardTest : public testing::TestWithParam<Kind> {
 protected:
  static Problem problem() {
    return case_problem(GetParam(), "model=tiny-tp,seq=37+3+0+18,pad=8,mask=random:0.2,seed=101");
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, ShardTest,
                         testing::Values(Kind{"swa", "swa"}, Kind{"csa", "csa"}, Kind{"dense_loss", "csa,loss=dense"},
                                         Kind{"dense_mode", "csa,indexer=off"}, Kind{"hca", "hca,ratio=6"},
                                         Kind{"deep_sinks", "csa,sink=5000"}, Kind{"one_deep_sink", "csa,sink=900:3"},
                                         Kind{"silent_head", "csa,sink=inf:3"}, Kind{"silent", "csa,sink=inf"},
                                         Kind{"compressed_only", "csa,teacher=compressed_only,per_token_loss=on"}),
                         kind_name);

TEST_P(ShardTest, RanksTogetherEqualTheWhole) {
  const Problem whole = problem();
  const Results want = run(whole);
  for (const Index ranks : {1, 2, 4, 8}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const std::vector<Results> parts = run_ranks(whole, ranks);
    EXPECT_TRUE(replicas_agree(parts));
    const Results got = reassembled(parts);
    EXPECT_TRUE(same_values(want, got, [](DatasetId id) { return id == DatasetId::forward(StageId::kTopk); }));
    EXPECT_TRUE(close(want, got, 1e-12));
  }
}

class CollectiveTest : public testing::TestWithParam<contract::Collective> {};
INSTANTIATE_TEST_SUITE_P(OverHeads, CollectiveTest,
                         testing::Values(contract::Collective::kF1Out, contract::Collective::kF2aTeacherShift,
                                         contract::Collective::kF2bTeacherSum, contract::Collective::kB1QLatent,
                                         contract::Collective::kB2Kv, contract::Collective::kB3CompressedKv));

TEST_P(CollectiveTest, IsMissedWhenLeftOut) {
  const Problem whole = case_problem("csa,model=tiny-tp,seq=37+18,seed=102");
  const Results want = run(whole);
  for (const Index ranks : {2, 4}) EXPECT_FALSE(close(want, reassembled(run_ranks(whole, ranks, {GetParam()})), 1e-6));
}

TEST(Shard, RefusesPartsOfAGroup) {
  const Problem whole = case_problem("csa,model=tiny-tp,seq=9,seed=103");
  for (const HeadRange heads :
       {HeadRange{0, 1}, HeadRange{1, 2}, HeadRange{14, 4}, HeadRange{-2, 2}, HeadRange{16, 2}}) {
    Shard<double> shard;
    shard.heads = heads;
    Request request;
    request.wanted = all_datasets(whole.config);
    const auto results = run_layer(whole, request, ExactPolicy<double>{}, shard);
    ASSERT_FALSE(results.ok()) << heads.begin << " " << heads.count;
    EXPECT_EQ(results.error().code, contract::ErrorCode::kUsage);
    EXPECT_EQ(results.error().where, "heads");
  }
}

}  // namespace
}  // namespace plumbline::reference
