// The reference against files of an independent float64 implementation, and what the comparison with such a file sees.
#include <filesystem>
#include <random>

#include "compare/golden_rule.hpp"
#include "golden/golden_file.hpp"
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

using compare::DatasetVerdict;
using compare::Verdict;

std::vector<std::string> oracle_files() {
  std::vector<std::string> files;
  for (const auto& item : std::filesystem::directory_iterator(std::string(PLUMBLINE_TESTS_FOLDER) + "/oracle"))
    if (item.path().extension() == ".h5") files.push_back(item.path().stem().string());
  std::sort(files.begin(), files.end());
  return files;
}

class OracleTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto file = golden::read(std::string(PLUMBLINE_TESTS_FOLDER) + "/oracle/" + GetParam() + ".h5");
    ASSERT_TRUE(file.ok()) << file.error().text();
    file_ = std::move(*file);
  }
  const Problem& problem() const { return file_.problem; }
  const Results& want() const { return file_.results; }

  golden::GoldenFile file_;
};
INSTANTIATE_TEST_SUITE_P(Files, OracleTest, testing::ValuesIn(oracle_files()),
                         [](const auto& test) { return test.param; });

TEST(Oracle, HasAllFiles) { EXPECT_EQ(oracle_files().size(), 17u); }

void expect_all_pass(const std::vector<DatasetVerdict>& verdicts, const Results& want) {
  EXPECT_EQ(verdicts.size(), want.available().count());
  for (const DatasetVerdict& v : verdicts) {
    const bool empty = want.at(v.id).empty();
    EXPECT_TRUE(v.verdict == Verdict::kPass || (empty && v.verdict == Verdict::kNotCompared))
        << v.id.path() << " error " << v.error << " limit " << v.limit << " " << v.reason;
    if (v.id.is_forward() && !(v.id == DatasetId::forward(StageId::kIndexerLoss)))
      EXPECT_LE(v.limit, 1e-13);
    else
      EXPECT_LE(v.limit, 1e-12);
  }
}

TEST_P(OracleTest, ReferenceAgrees) {
  EXPECT_EQ(want().available(), all_datasets(problem().config)) << "a file holds every dataset of its layer kind";
  expect_all_pass(compare::compare_by_golden_rule(problem(), want(), run(problem())), want());
}

TEST_P(OracleTest, WideReferenceAgrees) {
  expect_all_pass(compare::compare_by_golden_rule(problem(), want(), convert<double>(run<long double>(problem()))),
                  want());
}

/// |loss error| <= 1e-13 loss_coeff sum over rows and candidates of t (|ln t| + |ln p|) / (N or 1).
TEST_P(OracleTest, LossIsWithinItsCondition) {
  const Results got = run(problem());
  const DatasetId loss = DatasetId::forward(StageId::kIndexerLoss);
  double condition = 0;
  if (problem().config.indexer) {
    const Tensor &teacher = want().at(DatasetId::forward(StageId::kTeacher)),
                 &predict = want().at(DatasetId::forward(StageId::kPredict));
    for (Index e = 0; e < teacher.size(); ++e)
      if (teacher[e] > 0 && predict[e] > 0)
        condition += teacher[e] * (std::abs(std::log(teacher[e])) + std::abs(std::log(predict[e])));
    if (!problem().config.per_token_loss) condition /= double(std::max<Index>(1, problem().packing.valid_rows()));
  }
  EXPECT_LE(std::abs(got.at(loss)[0] - want().at(loss)[0]), 1e-13 * problem().config.loss_coeff * condition);
}

/// Which entries the format specifies, by its own list.
bool is_specified(DatasetId id, const Problem& problem, Index row) {
  const Packing& packing = problem.packing;
  const Index ratio = problem.config.ratio;
  if (id == DatasetId::gradient(StageId::kKlRows)) {
    if (!is_valid(problem, row)) return false;
    const Index b = packing.segment_of(row);
    return visible_entries(row - packing.offsets[static_cast<std::size_t>(b)], ratio, packing.groups(b, ratio)) > 0;
  }
  if (id.is_gradient()) return true;
  switch (*id.stage()) {
    case StageId::kQDown:
    case StageId::kQLatent:
    case StageId::kQUp:
    case StageId::kQ:
    case StageId::kIndexQ:
    case StageId::kIndexW: return is_valid(problem, row);
    case StageId::kKvProj:
    case StageId::kKv: return !packing.is_padding(row);
    case StageId::kCompressedPooled:
    case StageId::kCompressedKv:
    case StageId::kIndexPooled:
    case StageId::kIndexK: {
      const std::vector<Index> entries = real_entries(packing, ratio);
      return std::binary_search(entries.begin(), entries.end(), row);
    }
    default: return true;
  }
}

/// The change of one element that must be seen: 1e-9 of the tensor's largest magnitude; another pick; a number where
/// an infinity stands.
double changed(DatasetId id, const Tensor& tensor, Index element, double largest) {
  const double value = tensor[element];
  if (id == DatasetId::forward(StageId::kTopk)) {
    const Index row = element / tensor.row_size();
    for (double other = 0;; ++other)
      if (std::find(tensor.row(row), tensor.row(row) + tensor.row_size(), other) == tensor.row(row) + tensor.row_size())
        return other;
  }
  if (std::isinf(value)) return 0;
  return value + (element % 2 ? 1e-9 : -1e-9) * (largest > 0 ? largest : 1);
}

/// The datasets that a comparison calls wrong.
std::vector<std::string> wrong_datasets(const std::vector<DatasetVerdict>& verdicts) {
  std::vector<std::string> names;
  for (const DatasetVerdict& v : verdicts)
    if (v.verdict == Verdict::kFail) names.push_back(v.id.path());
  return names;
}

class OracleChange : public OracleTest {
 protected:
  /// Only what judging `id` needs, so that many places can be tried.
  Results around(DatasetId id) const {
    Results some;
    some.set(id, want().at(id));
    if (id == DatasetId::forward(StageId::kIndexerLoss))
      for (const StageId other : {StageId::kTeacher, StageId::kPredict, StageId::kTopk, StageId::kIndexScores})
        if (want().has(DatasetId::forward(other)))
          some.set(DatasetId::forward(other), want().at(DatasetId::forward(other)));
    return some;
  }
  std::vector<Index> places(DatasetId id, bool specified, std::mt19937_64& engine) const {
    const Tensor& tensor = want().at(id);
    std::vector<Index> rows, found;
    const Index row_count = tensor.shape().empty() ? 1 : tensor.shape()[0];
    for (Index row = 0; row < row_count; ++row)
      if (is_specified(id, problem(), row) == specified) rows.push_back(row);
    if (rows.empty() || tensor.empty()) return found;
    for (int i = 0; i < kPlaces; ++i)
      found.push_back(rows[engine() % rows.size()] * tensor.row_size() +
                      static_cast<Index>(engine() % static_cast<std::uint64_t>(tensor.row_size())));
    return found;
  }
  static constexpr int kPlaces = 24;
};
INSTANTIATE_TEST_SUITE_P(Files, OracleChange, testing::ValuesIn(oracle_files()),
                         [](const auto& test) { return test.param; });

TEST_P(OracleChange, OfOneElementIsSeenAndNamed) {
  std::mt19937_64 engine(7);
  for_each_dataset(want(), [&](DatasetId id, const Tensor& tensor) {
    double largest = 0;
    for (Index e = 0; e < tensor.size(); ++e)
      if (std::isfinite(tensor[e]) && (tensor.row_size() == 0 || is_specified(id, problem(), e / tensor.row_size())))
        largest = std::max(largest, std::abs(tensor[e]));
    const Results correct = around(id);
    Results wrong = correct;
    for (const Index element : places(id, true, engine)) {
      wrong.at(id)[element] = changed(id, tensor, element, largest);
      const std::vector<std::string> only{id.path()};
      EXPECT_EQ(wrong_datasets(compare::compare_by_golden_rule(problem(), correct, wrong)), only)
          << "element " << element;
      EXPECT_EQ(wrong_datasets(compare::compare_by_golden_rule(problem(), wrong, correct)), only)
          << "element " << element;
      wrong.at(id)[element] = std::nan("");
      EXPECT_EQ(wrong_datasets(compare::compare_by_golden_rule(problem(), correct, wrong)), only)
          << "element " << element;
      wrong.at(id)[element] = tensor[element];
    }
  });
}

/// The same among all datasets of the file, against the reference: the one that was changed is named, no other is.
TEST_P(OracleChange, IsNamedAmongAllDatasets) {
  std::mt19937_64 engine(8);
  const Results got = run(problem());
  for_each_dataset(want(), [&](DatasetId id, const Tensor& tensor) {
    const std::vector<Index> found = places(id, true, engine);
    if (found.empty()) return;
    double largest = 0;
    for (const double value : tensor.values())
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    Results damaged = want();
    damaged.at(id)[found[0]] = changed(id, tensor, found[0], largest);
    EXPECT_EQ(wrong_datasets(compare::compare_by_golden_rule(problem(), damaged, got)),
              std::vector<std::string>{id.path()})
        << "element " << found[0];
  });
}

TEST_P(OracleChange, WhereNothingIsSpecifiedIsNotSeen) {
  std::mt19937_64 engine(9);
  for_each_dataset(want(), [&](DatasetId id, const Tensor&) {
    const Results correct = around(id);
    Results other = correct;
    for (const Index element : places(id, false, engine)) other.at(id)[element] = 12345;
    EXPECT_TRUE(wrong_datasets(compare::compare_by_golden_rule(problem(), correct, other)).empty()) << id.path();
  });
}

}  // namespace
}  // namespace plumbline::tests
