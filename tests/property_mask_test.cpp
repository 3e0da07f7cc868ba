// Rows with row_valid 0 lose the query role and nothing else.
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

constexpr const char* kBatch = "seq=37+3+18,pad=8,mask=random:0.3,seed=13";

class MaskProperty : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, MaskProperty, testing::ValuesIn(all_kinds()), kind_name);

std::vector<Index> masked_rows(const Problem& problem) {
  std::vector<Index> rows;
  for (const Index row : real_rows(problem.packing))
    if (!is_valid(problem, row)) rows.push_back(row);
  return rows;
}

void set_grad_out(Problem& problem, Index row, double value) {
  std::fill_n(problem.grad_out.row(row), problem.config.hidden, value);
}

TEST_P(MaskProperty, GradOutOfMaskedRowsIsIgnored) {
  Problem problem = case_problem(GetParam(), kBatch);
  ASSERT_GE(masked_rows(problem).size(), 5u);
  for (const Index row : masked_rows(problem)) set_grad_out(problem, row, 0);
  const Results want = run(problem);
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), kInfinity, 1e300}) {
    for (const Index row : masked_rows(problem)) set_grad_out(problem, row, poison);
    EXPECT_TRUE(same_bits(want, run(problem))) << poison;
  }
}

TEST_P(MaskProperty, MaskedRowsHoldTheirFixedValues) {
  const Problem problem = case_problem(GetParam(), kBatch);
  for_each_dataset(run(problem), [&](DatasetId id, const Tensor& tensor) {
    const bool query_role = id.stage() && (info(*id.stage()).role == Role::kQueryResult ||
                                           (id.is_gradient() && info(*id.stage()).role == Role::kQueryInput));
    if (!query_role || id == DatasetId::gradient(StageId::kKlRows)) return;
    for (const Index row : masked_rows(problem))
      for (Index e = 0; e < tensor.row_size(); ++e)
        ASSERT_EQ(tensor.row(row)[e], id.is_gradient() ? 0 : fill_of(id)) << id.path() << " row " << row;
  });
}

/// Compares all rows that are valid in both problems, of the stages that a query computes; and all keys.
void expect_other_rows_unchanged(const Problem& problem, const Results& all, const std::vector<Index>& masked) {
  Problem fewer = problem;
  for (const Index row : masked) mask_row(fewer, row);
  const Results got = run(fewer);
  for_each_dataset(all, [&](DatasetId id, const Tensor& tensor) {
    if (!id.is_forward() || !has_rows(id)) return;
    for (Index row = 0; row < tensor.shape()[0]; ++row) {
      if (id.axes()[0] == Axis::kToken && !is_valid(fewer, row) && info(*id.stage()).role != Role::kKey) continue;
      for (Index e = 0; e < tensor.row_size(); ++e)
        ASSERT_TRUE(equal_bits(tensor.row(row)[e], got.at(id).row(row)[e]))
            << id.path() << " row " << row << ", masked " << masked.size() << " rows from " << masked.front();
    }
  });
}

TEST_P(MaskProperty, MaskingARowChangesNoOtherRow) {
  const Problem problem = case_problem(GetParam(), "seq=37+3+18,seed=14");
  const Results all = run(problem);
  for (const Index row : {0, 1, 5, 11, 36, 37, 39, 57}) expect_other_rows_unchanged(problem, all, {row});
}

TEST_P(MaskProperty, MaskingManyRowsChangesNoOtherRow) {
  const Problem problem = case_problem(GetParam(), "seq=545+70+3+49,seed=15");
  const Results all = run(problem);
  std::vector<Index> every_third, all_but_three;
  for (Index row = 0; row < problem.packing.tokens(); ++row) {
    if (row % 3 == 0) every_third.push_back(row);
    if (row != 30 && row != 544 && row != 600) all_but_three.push_back(row);
  }
  expect_other_rows_unchanged(problem, all, every_third);
  expect_other_rows_unchanged(problem, all, all_but_three);
}

/// A masked row is a row that nothing is asked of: with zero grad_out and without its share of the loss, an unmasked
/// row gives the same gradients. The share is what a run with that row as the only query gives.
TEST_P(MaskProperty, MaskedRowsStayKeys) {
  Problem masked = case_problem(GetParam(), kBatch);
  masked.config.per_token_loss = true;
  Problem unmasked = masked;
  Request shares;
  shares.wanted = all_datasets(masked.config);
  for (const Index row : masked_rows(masked)) {
    unmasked.packing.row_valid[static_cast<std::size_t>(row)] = 1;
    set_grad_out(unmasked, row, 0);
    shares.query_rows.push_back(row);
  }
  const Results want = run(masked), all = run(unmasked), share = run(unmasked, shares);
  EXPECT_TRUE(close(want, plus(all, -1, share), 1e-13,
                    [](DatasetId id) { return id.is_gradient() && !(id == DatasetId::gradient(StageId::kKlRows)); }));
  const Tensor& dhidden = want.at(DatasetId::hidden_gradient());
  bool key_of_later_query = false;
  for (const Index row : masked_rows(masked))
    key_of_later_query |=
        !all_zero(Tensor({dhidden.row_size()}, {dhidden.row(row), dhidden.row(row) + dhidden.row_size()}));
  EXPECT_TRUE(key_of_later_query);
}

}  // namespace
}  // namespace plumbline::tests
