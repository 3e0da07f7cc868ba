// Error budgets: the values that the budget pass computes on its way are the truth, and errors of real emulations stay
// inside the budgets whatever the candidate holds.
#include <gtest/gtest.h>

#include "compare/gate.hpp"
#include "reference/budget/layer_budget.hpp"
#include "reference/budget/rules.hpp"
#include "reference/contract/specified.hpp"
#include "reference/emulate.hpp"
#include "reference/isolate.hpp"
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

const PrecisionProfile& profile_of(const char* name) { return *find_precision_profile(name); }

struct Evaluation {
  reference::Isolated isolated;
  reference::Budgets budgets;
};

Evaluation evaluate(const Problem& problem, const PrecisionProfile& profile, const Results& held) {
  Request request;
  request.wanted = all_datasets(problem.config);
  auto isolated = reference::run_isolated(problem, held, request);
  if (!isolated) throw std::runtime_error(isolated.error().text());
  auto budgets = reference::run_budgets(problem, profile, isolated->values, held.available(), request);
  if (!budgets) throw std::runtime_error(budgets.error().text());
  return {std::move(*isolated), std::move(*budgets)};
}

Results emulate(const Problem& problem, const PrecisionProfile& profile, std::uint64_t seed) {
  Request request;
  request.wanted = all_datasets(problem.config);
  auto results = reference::run_emulated(problem, request, profile, reference::draw_variant(seed));
  if (!results) throw std::runtime_error(results.error().text());
  return std::move(*results);
}

/// Errors of all specified entries are within the budgets.
void expect_within(const Problem& problem, const Evaluation& e, const Results& got) {
  for_each_dataset(got, [&](DatasetId id, const Tensor& tensor) {
    if (id == DatasetId::forward(StageId::kTopk)) return;
    const auto d = compare::measure_deviation(specified_rows(id, problem), e.isolated.truth.at(id), tensor,
                                              e.budgets.budgets.at(id));
    EXPECT_EQ(d.pattern_errors, 0) << id.path();
    EXPECT_LE(d.largest, 1) << id.path();
  });
}

class Budget : public testing::TestWithParam<Kind> {};

TEST_P(Budget, PassComputesTheTruth) {
  for (const char* profile : {"fp32", "bf16-eager"})
    for (const char* data : {"normal", "negative", "heavy"}) {
      const Problem problem = round_problem(
          case_problem(GetParam(), std::string("seq=27+3+9,pad=4,mask=random:0.3,data=") + data), profile_of(profile));
      Results picks;
      const Results exact = run(problem);
      picks.set(DatasetId::forward(StageId::kTopk), exact.at(DatasetId::forward(StageId::kTopk)));
      for (const Results& held : {picks, emulate(problem, profile_of(profile), 3)}) {
        const Evaluation e = evaluate(problem, profile_of(profile), held);
        for_each_dataset(e.budgets.values, [&](DatasetId id, const Tensor& value) {
          if (id == DatasetId::forward(StageId::kTopk)) return;
          const Tensor& truth = e.isolated.truth.at(id);
          const std::vector<bool> rows = specified_rows(id, problem);
          double largest = 0;
          for (Index i = 0; i < truth.size(); ++i)
            if (std::isfinite(truth[i])) largest = std::max(largest, std::abs(truth[i]));
          for (Index i = 0; i < truth.size(); ++i) {
            if (!rows[static_cast<std::size_t>(truth.row_size() > 0 ? i / truth.row_size() : 0)]) continue;
            if (std::isfinite(truth[i]))
              ASSERT_NEAR(value[i], truth[i], 1e-11 * largest)
                  << id.path() << " " << i << " " << profile << " " << data;
            else
              ASSERT_EQ(value[i], truth[i]) << id.path() << " " << i;
          }
        });
      }
    }
}

TEST_P(Budget, HoldsEmulationsOfEveryProfile) {
  for (const char* profile : {"fp32", "bf16-fused", "bf16-eager", "bf16-fp8index"})
    for (const char* data : {"ints", "normal", "peaky", "negative", "flat", "ties", "outliers", "heavy"}) {
      SCOPED_TRACE(std::string(profile) + " " + data);
      const Problem problem = round_problem(
          case_problem(GetParam(), std::string("seq=27+3+9,pad=4,mask=random:0.3,data=") + data), profile_of(profile));
      const Results got = emulate(problem, profile_of(profile), 11);
      expect_within(problem, evaluate(problem, profile_of(profile), got), got);
    }
}

/// A stage that the candidate lacks is judged together with its successor.
TEST_P(Budget, HoldsWhereStagesAreMissing) {
  const Problem problem = round_problem(case_problem(GetParam(), "seq=37"), profile_of("bf16-fused"));
  const Results all = emulate(problem, profile_of("bf16-fused"), 5);
  for (int drop = 0; drop < 6; ++drop) {
    Results held;
    std::size_t n = 0;
    for_each_dataset(all, [&](DatasetId id, const Tensor& tensor) {
      if (++n % 6 != static_cast<std::size_t>(drop) || id == DatasetId::forward(StageId::kTopk)) held.set(id, tensor);
    });
    expect_within(problem, evaluate(problem, profile_of("bf16-fused"), held), held);
  }
}

TEST_P(Budget, IsZeroExactlyWhereTheContractFixesTheValue) {
  const Problem problem =
      round_problem(case_problem(GetParam(), "seq=19+6,pad=8,mask=random:0.4"), profile_of("bf16-fused"));
  const Evaluation e = evaluate(problem, profile_of("bf16-fused"), emulate(problem, profile_of("bf16-fused"), 5));
  const Tensor& out = e.budgets.budgets.at(DatasetId::forward(StageId::kOut));
  const Tensor& hidden = e.budgets.budgets.at(DatasetId::hidden_gradient());
  for (Index row = 0; row < problem.packing.tokens(); ++row) {
    const bool real = !std::isnan(problem.hidden.row(row)[0]);
    for (Index c = 0; c < problem.config.hidden; ++c) {
      EXPECT_EQ(out.row(row)[c] > 0, problem.packing.row_valid[static_cast<std::size_t>(row)] != 0);
      EXPECT_EQ(hidden.row(row)[c] > 0, real);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, Budget, testing::ValuesIn(all_kinds()), kind_name);

TEST(BudgetRules, SumsAreBoundedAsStated) {
  using namespace reference::budget;
  EXPECT_DOUBLE_EQ(accumulation(0x1p-24, 4, 1, 3, 2, 2), 4 * 0x1p-24 * 3);
  EXPECT_DOUBLE_EQ(accumulation(0x1p-24, 100, 1, 30, 2, 5), kAccumulation * 0x1p-24 * 10 * 5);
  EXPECT_DOUBLE_EQ(spread(3, 2, 1.5), 2);
  EXPECT_DOUBLE_EQ(spread(100, 20, 1.5), kSpread * 1.5);
  EXPECT_DOUBLE_EQ(moved_probability(0.5, 1000), 1);
}

}  // namespace
}  // namespace plumbline::tests
