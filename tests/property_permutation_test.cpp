// Heads of a group, groups and indexer heads have no order: renaming them renames the results.
#include <numeric>

#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

using Order = std::vector<Index>;

/// `tensor` seen as [before, order.size(), block]: to[.., i, ..] = from[.., order[i], ..].
Tensor reordered(const Tensor& tensor, Index before, const Order& order) {
  const Index n = static_cast<Index>(order.size()), block = tensor.size() / std::max<Index>(1, before * n);
  Tensor to(tensor.shape());
  for (Index b = 0; b < before; ++b)
    for (Index i = 0; i < n; ++i)
      std::copy_n(tensor.data() + (b * n + order[static_cast<std::size_t>(i)]) * block, block,
                  to.data() + (b * n + i) * block);
  return to;
}

/// Order of heads made of an order of groups and, within every group, an order of its heads.
Order head_order(const Order& groups, const Order& within) {
  Order heads;
  for (const Index group : groups)
    for (const Index head : within) heads.push_back(group * static_cast<Index>(within.size()) + head);
  return heads;
}

/// Renames heads along a dataset's or weight's axes.
class Renaming {
 public:
  Renaming(Order groups, Order within, Order index_heads)
      : groups_(std::move(groups)),
        within_(std::move(within)),
        heads_(head_order(groups_, within_)),
        index_heads_(std::move(index_heads)) {}

  Tensor operator()(const Axes& axes, Tensor tensor) const {
    Index before = 1;
    for (std::size_t a = 0; a < axes.size() && axes[a] != Axis::kNone; ++a) {
      if (axes[a] == Axis::kHead || axes[a] == Axis::kHeadByDim) tensor = reordered(tensor, before, heads_);
      if (axes[a] == Axis::kGroupByRank) tensor = reordered(tensor, before, groups_);
      if (axes[a] == Axis::kGroupInput) tensor = reordered(tensor, before, within_);
      if (axes[a] == Axis::kIndexHead || axes[a] == Axis::kIndexHeadByDim)
        tensor = reordered(tensor, before, index_heads_);
      before *= tensor.shape()[a];
    }
    return tensor;
  }
  Problem operator()(Problem problem) const {
    for (const WeightInfo& weight : kWeights)
      if (present(weight.presence, problem.config))
        problem.weight(weight.id) = (*this)(weight.axes, std::move(problem.weight(weight.id)));
    return problem;
  }
  Results operator()(const Results& results) const {
    Results to;
    for_each_dataset(results, [&](DatasetId id, const Tensor& tensor) { to.set(id, (*this)(id.axes(), tensor)); });
    return to;
  }

 private:
  Order groups_, within_, heads_, index_heads_;
};

class PermutationProperty : public testing::TestWithParam<Kind> {
 protected:
  void expect_renamed(const Order& groups, const Order& within, const Order& index_heads) {
    const Problem problem =
        case_problem(GetParam(), "heads=12,o_groups=3,index_heads=5,seq=37+18,pad=8,mask=random:0.2,seed=53");
    const Renaming rename(groups, within, index_heads);
    const Results want = rename(run(problem)), got = run(rename(problem));
    EXPECT_TRUE(same_values(want, got, [](DatasetId id) { return id == DatasetId::forward(StageId::kTopk); }));
    EXPECT_TRUE(close(want, got, 2e-13, [](DatasetId id) { return id.is_forward(); }));
    EXPECT_TRUE(close(want, got, 1e-12));
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, PermutationProperty,
                         testing::Values(Kind{"swa", "swa"}, Kind{"csa", "csa"}, Kind{"dense_loss", "csa,loss=dense"},
                                         Kind{"dense_mode", "csa,indexer=off"}, Kind{"hca", "hca,ratio=6"},
                                         Kind{"overlap3", "csa,ratio=3"}),
                         kind_name);

TEST_P(PermutationProperty, HeadsWithinAGroup) { expect_renamed({0, 1, 2}, {2, 0, 3, 1}, {0, 1, 2, 3, 4}); }
TEST_P(PermutationProperty, Groups) { expect_renamed({2, 0, 1}, {0, 1, 2, 3}, {0, 1, 2, 3, 4}); }
TEST_P(PermutationProperty, IndexHeads) { expect_renamed({0, 1, 2}, {0, 1, 2, 3}, {3, 1, 4, 0, 2}); }

/// Heads that change their group meet other output weights: that is another layer.
TEST(Permutation, AcrossGroupsIsAnotherLayer) {
  const Problem problem = case_problem("csa,heads=4,o_groups=2,seq=20,seed=54");
  Problem crossed = problem;
  for (const WeightId id : {WeightId::kWqB, WeightId::kAttnSink})
    crossed.weight(id) = reordered(problem.weight(id), 1, {0, 2, 1, 3});
  EXPECT_FALSE(
      close(run(problem), run(crossed), 1e-3, [](DatasetId id) { return id == DatasetId::forward(StageId::kOut); }));
}

}  // namespace
}  // namespace plumbline::tests
