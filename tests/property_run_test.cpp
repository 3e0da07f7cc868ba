// What a run returns depends on the problem alone: not on what else was asked for, or on which rows share the run.
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

class RunProperty : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RunProperty, testing::ValuesIn(all_kinds()), kind_name);

constexpr const char* kBatch = "seq=60+3+18,pad=8,mask=random:0.2,seed=93";

TEST_P(RunProperty, WhatElseIsAskedForChangesNoBit) {
  const Problem problem = case_problem(GetParam(), kBatch);
  const Results everything_asked = run(problem);
  const DatasetSet all = all_datasets(problem.config);
  const auto expect_same_for = [&](const DatasetSet& wanted) {
    Request request;
    request.wanted = wanted;
    const Results got = run(problem, request);
    EXPECT_EQ(got.available(), wanted);
    EXPECT_TRUE(same_bits(got, everything_asked));
  };
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (all.test(i)) expect_same_for(DatasetSet().set(i));
  expect_same_for(all_datasets(problem.config, false));
  expect_same_for(all & ~all_datasets(problem.config, false));
}

TEST_P(RunProperty, DatasetsThatTheLayerLacksAreNotReturned) {
  const Problem problem = case_problem(GetParam(), "seq=9,seed=94");
  Request request;
  request.wanted.set();
  EXPECT_EQ(run(problem, request).available(), all_datasets(problem.config));
}

TEST_P(RunProperty, QueryRowsAskedForEqualTheWholeRun) {
  const Problem problem = case_problem(GetParam(), kBatch);
  const Results whole = run(problem);
  Request some, others;
  some.wanted = others.wanted = all_datasets(problem.config);
  for (const Index row : real_rows(problem.packing))
    if (is_valid(problem, row)) (row % 3 == 1 || row == 0 ? some : others).query_rows.push_back(row);
  std::reverse(some.query_rows.begin(), some.query_rows.end());
  const Results part = run(problem, some), rest = run(problem, others);
  const auto is_asked = [](const Request& request, Index row) {
    return std::find(request.query_rows.begin(), request.query_rows.end(), row) != request.query_rows.end();
  };
  for_each_dataset(whole, [&](DatasetId id, const Tensor& tensor) {
    if (!id.is_forward() || !has_rows(id)) return;
    const Role role = info(*id.stage()).role;
    for (const auto& [request, results] : {std::pair{&some, &part}, std::pair{&others, &rest}})
      for (Index row = 0; row < tensor.shape()[0]; ++row) {
        const bool present_here = role == Role::kKey || role == Role::kEntry || is_asked(*request, row);
        for (Index e = 0; e < tensor.row_size(); ++e)
          ASSERT_TRUE(equal_bits(results->at(id).row(row)[e], present_here ? tensor.row(row)[e] : fill_of(id)))
              << id.path() << " row " << row;
      }
  });
  const auto is_sum = [](DatasetId id) { return id.is_gradient() || id == DatasetId::forward(StageId::kIndexerLoss); };
  EXPECT_TRUE(close(whole, plus(part, 1, rest), 1e-13, is_sum));
  const DatasetId most = DatasetId::forward(StageId::kMaxLogits);
  for (Index h = 0; h < problem.config.heads; ++h)
    EXPECT_EQ(whole.at(most)[h], std::max(part.at(most)[h], rest.at(most)[h]));
}

TEST(Run, RefusesQueryRowsWithoutTheQueryRole) {
  const Problem problem = case_problem("csa,seq=9+5,pad=8,mask=prefix:2,seed=95");
  for (const Index row : {-1, 1, 15, 32}) {
    Request request;
    request.wanted = all_datasets(problem.config);
    request.query_rows = {3, row};
    const auto results = reference::run_exact<double>(problem, request);
    ASSERT_FALSE(results.ok()) << row;
    EXPECT_EQ(results.error().code, ErrorCode::kUsage);
    EXPECT_EQ(results.error().where, "query_rows");
  }
}

TEST(Run, StopsWhenCancelled) {
  const Problem problem = case_problem("csa,seq=60,seed=96");
  Request request;
  request.wanted = all_datasets(problem.config);
  std::vector<double> fractions;
  request.progress = [&](double fraction) { fractions.push_back(fraction); };
  ASSERT_TRUE(reference::run_exact<double>(problem, request).ok());
  ASSERT_GE(fractions.size(), 3u);
  EXPECT_TRUE(std::is_sorted(fractions.begin(), fractions.end()));
  EXPECT_GE(fractions.front(), 0);
  EXPECT_LE(fractions.back(), 1);
  request.progress = nullptr;
  for (std::size_t calls = 0; calls < fractions.size(); ++calls) {
    std::size_t call = 0;
    request.cancelled = [&] { return call++ == calls; };
    const auto results = reference::run_exact<double>(problem, request);
    ASSERT_FALSE(results.ok());
    EXPECT_EQ(results.error().code, ErrorCode::kInterrupted);
  }
}

}  // namespace
}  // namespace plumbline::tests
