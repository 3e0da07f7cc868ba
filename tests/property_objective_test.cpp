// The objective sum(out * grad_out) + loss_scale * indexer_loss: linear in grad_out and in the loss's coefficient, and
// its two terms meet nowhere.
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

constexpr const char* kBatch = "seq=37+3+18,pad=8,mask=random:0.2,seed=33";

class ObjectiveProperty : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ObjectiveProperty, testing::ValuesIn(all_kinds()), kind_name);

class LossProperty : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, LossProperty, testing::ValuesIn(indexing_kinds()), kind_name);

Results run_with(Problem problem, double loss_coeff, double loss_scale) {
  problem.config.loss_coeff = loss_coeff;
  problem.config.loss_scale = loss_scale;
  return run(problem);
}

bool is_gradient_outside_indexer(DatasetId id) { return id.is_gradient() && !is_indexer(id); }

TEST_P(LossProperty, LossReachesTheIndexerAlone) {
  const Problem problem = case_problem(GetParam(), kBatch);
  const Results none = run_with(problem, 0, 1), large = run_with(problem, 1000, 1),
                scaled_up = run_with(problem, 1, 1e6);
  for (const Results* other : {&large, &scaled_up}) EXPECT_TRUE(same_bits(none, *other, is_gradient_outside_indexer));
  for_each_dataset(none, [&](DatasetId id, const Tensor& tensor) {
    if (!is_indexer_gradient(id)) return;
    EXPECT_TRUE(all_zero(tensor)) << id.path() << " without a loss";
    EXPECT_FALSE(all_zero(large.at(id))) << id.path();
  });
  EXPECT_EQ(none.at(DatasetId::forward(StageId::kIndexerLoss))[0], 0);
}

TEST_P(LossProperty, IndexerGradientsScaleWithTheLoss) {
  const Problem problem = case_problem(GetParam(), kBatch);
  const Results one = run_with(problem, 0.01, 1);
  // Powers of two commute with rounding, so there the gradients scale to the last bit.
  EXPECT_TRUE(same_bits(scaled(one, 8, is_indexer_gradient), run_with(problem, 0.08, 1), is_indexer_gradient));
  EXPECT_TRUE(same_bits(scaled(one, 8, is_indexer_gradient), run_with(problem, 0.01, 8), is_indexer_gradient));
  EXPECT_TRUE(close(scaled(one, 1e5, is_indexer_gradient), run_with(problem, 1000, 1), 1e-14, is_indexer_gradient));
  EXPECT_TRUE(close(scaled(one, -3e7, is_indexer_gradient), run_with(problem, 0.01, -3e7), 1e-14, is_indexer_gradient));
  const DatasetId loss = DatasetId::forward(StageId::kIndexerLoss);
  EXPECT_DOUBLE_EQ(run_with(problem, 1000, 1).at(loss)[0], 1e5 * one.at(loss)[0]);
  EXPECT_EQ(run_with(problem, 0.01, 7).at(loss)[0], one.at(loss)[0]);
  EXPECT_GT(one.at(loss)[0], 0);
}

TEST_P(LossProperty, LossIsTheSumOrMeanOfItsRows) {
  for (const bool per_token : {false, true}) {
    Problem problem = case_problem(GetParam(), kBatch);
    problem.config.per_token_loss = per_token;
    const Results results = run(problem);
    const Tensor& rows = results.at(DatasetId::forward(StageId::kKlRows));
    double sum = 0;
    for (const double kl : rows.values()) sum += kl;
    const double rows_counted = per_token ? 1 : double(problem.packing.valid_rows());
    const double loss = results.at(DatasetId::forward(StageId::kIndexerLoss))[0];
    EXPECT_NEAR(loss, problem.config.loss_coeff * sum / rows_counted, 1e-14 * loss);
  }
}

TEST_P(ObjectiveProperty, GradientIsLinearInGradOut) {
  const Problem first = case_problem(GetParam(), kBatch);
  Problem second = first, mixed = first;
  const double a = 0.75, b = -2.5;
  for (Index row = 0; row < first.packing.tokens(); ++row)
    for (Index c = 0; c < first.config.hidden && is_valid(first, row); ++c) {
      second.grad_out.row(row)[c] = std::cos(double(3 * row + 7 * c));
      mixed.grad_out.row(row)[c] = a * first.grad_out.row(row)[c] + b * second.grad_out.row(row)[c];
    }
  const Results one = run(first), two = run(second), got = run(mixed);
  EXPECT_TRUE(close(plus(scaled(one, a), b, two), got, 1e-13, is_gradient_outside_indexer));
  EXPECT_TRUE(same_bits(one, got, [](DatasetId id) { return id.is_forward() || is_indexer(id); }));
}

TEST_P(ObjectiveProperty, NothingIsAskedWithoutGradOut) {
  Problem problem = case_problem(GetParam(), kBatch);
  std::fill(problem.grad_out.values().begin(), problem.grad_out.values().end(), 0.0);
  for_each_dataset(run(problem), [&](DatasetId id, const Tensor& tensor) {
    if (id.is_gradient()) {
      EXPECT_EQ(all_zero(tensor), !is_indexer(id)) << id.path();
    }
  });
}

}  // namespace
}  // namespace plumbline::tests
