#include "reference/contract/sketch.hpp"

#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <limits>

#include "compare/sketch_rule.hpp"
#include "reference/contract/case.hpp"
#include "reference/contract/implementation.hpp"
#include "reference/contract/random.hpp"
#include "reference/contract/specified.hpp"
#include "reference/implementations.hpp"

namespace plumbline {
namespace {

using namespace contract;

constexpr DatasetId kOut = DatasetId::forward(StageId::kOut), kTopk = DatasetId::forward(StageId::kTopk);

struct Run {
  Problem problem;
  Results results;
};

Run run(const std::string& text) {
  Run r;
  r.problem = *make_problem(*parse_case(text));
  Request request;
  request.wanted = all_datasets(r.problem.config);
  reference::register_reference_implementations();
  r.results = *find_implementation("reference")->run(r.problem, request);
  return r;
}

const Run& csa() {
  static const Run r = run("csa,seq=21+3+6,pad=8,mask=random:0.3");
  return r;
}

Sketches sketches_of(const Run& r) {
  Sketches sketches;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const Tensor* tensor = r.results.find(DatasetId::from_index(i)))
      sketches[i] = make_sketch(DatasetId::from_index(i), *tensor, r.problem);
  return sketches;
}

const compare::DatasetVerdict& verdict_of(const std::vector<compare::DatasetVerdict>& verdicts, DatasetId id) {
  for (const auto& v : verdicts)
    if (v.id == id) return v;
  std::abort();
}

TEST(Sketch, PlacesAreEvenlySpacedAndHoldBothEnds) {
  EXPECT_EQ(sample_places(0, 8), std::vector<Index>{});
  EXPECT_EQ(sample_places(1, 8), std::vector<Index>{0});
  EXPECT_EQ(sample_places(3, 8), (std::vector<Index>{0, 1, 2}));
  EXPECT_EQ(sample_places(1024, 8), (std::vector<Index>{0, 146, 292, 438, 584, 730, 876, 1023}));
}

TEST(Sketch, ShapesOfScalarsEmptyAndLongTensors) {
  EXPECT_EQ(sketch_shape({}).samples(), 1);
  EXPECT_EQ(sketch_shape({}).norms(), 1);
  EXPECT_EQ(sketch_shape({5, 0}).samples(), 0);
  EXPECT_EQ(sketch_shape({0, 4}).norms(), 0);
  EXPECT_EQ(sketch_shape({32768, 1024}).rows_per_norm(), 32);
  EXPECT_EQ(sketch_shape({32768, 1024}).norms(), 1024);
  EXPECT_EQ(sketch_shape({1025, 2}).norms(), 513);
}

// The definition, entry by entry.
TEST(Sketch, IsWhatItsDefinitionSays) {
  const Tensor& out = csa().results.at(kOut);
  const Sketch sketch = make_sketch(kOut, out, csa().problem);
  std::uint64_t key = 14695981039346656037u;
  for (const char c : std::string("forward/out")) key = (key ^ static_cast<std::uint64_t>(c)) * 1099511628211u;
  for (int k = 0; k < Sketch::kProjections; ++k) {
    long double sum = 0;
    for (Index e = 0; e < out.size(); ++e) {
      const auto words = philox(key, 0x736b, static_cast<std::uint64_t>(e / 16));
      const int bit = static_cast<int>(8 * (e % 16)) + k;
      sum += (words[static_cast<std::size_t>(bit / 32)] >> (bit % 32) & 1u) != 0 ? -out[e] : out[e];
    }
    EXPECT_NEAR(sketch.projections[static_cast<std::size_t>(k)], static_cast<double>(sum), 1e-13) << k;
  }
  double norm = 0, largest = 0;
  for (const double v : out.values()) {
    norm += v * v;
    largest = std::max(largest, std::abs(v));
  }
  EXPECT_NEAR(sketch.norm, std::sqrt(norm), 1e-12);
  EXPECT_EQ(sketch.largest, largest);
  EXPECT_EQ(sketch.counted, out.size());
  EXPECT_EQ(sketch.samples[0], out[0]);
  EXPECT_EQ(sketch.samples.back(), out[out.size() - 1]);
  double row = 0;
  for (Index c = 0; c < out.row_size(); ++c) row += out.row(2)[c] * out.row(2)[c];
  EXPECT_EQ(sketch.norms[2], static_cast<double>(static_cast<float>(std::sqrt(row))));
}

TEST(Sketch, IsTheSameForEveryNumberOfThreads) {
  Tensor big({300, 777});
  for (Index e = 0; e < big.size(); ++e) big[e] = normal(1, 2, static_cast<std::uint64_t>(e));
  const Problem problem = *make_problem(*parse_case("swa,seq=300,hidden=777"));
  const int threads = omp_get_max_threads();
  omp_set_num_threads(1);
  const Sketch one = make_sketch(kOut, big, problem);
  omp_set_num_threads(3);
  const Sketch three = make_sketch(kOut, big, problem);
  omp_set_num_threads(threads);
  EXPECT_TRUE(one == three);
}

TEST(Sketch, LeavesOutWhatIsNotSpecified) {
  const DatasetId id = DatasetId::forward(StageId::kQ);
  Tensor q = csa().results.at(id);
  const Sketch before = make_sketch(id, q, csa().problem);
  const std::vector<bool> rows = specified_rows(id, csa().problem);
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (Index c = 0; c < q.row_size(); ++c)
      if (!rows[r]) q.row(static_cast<Index>(r))[c] = c % 2 ? std::numeric_limits<double>::quiet_NaN() : 1e300;
  EXPECT_TRUE(make_sketch(id, q, csa().problem) == before);
}

TEST(Sketch, OfASelectionIsThatOfTheSet) {
  Tensor picks = csa().results.at(kTopk);
  const Sketch before = make_sketch(kTopk, picks, csa().problem);
  Index row = 0;
  while (!(picks.row(row)[0] >= 0 && picks.row(row)[1] >= 0)) ++row;
  std::swap(picks.row(row)[0], picks.row(row)[1]);
  EXPECT_TRUE(make_sketch(kTopk, picks, csa().problem) == before);
  Results got = csa().results;
  got.set(kTopk, picks);
  got.at(kTopk).row(row)[0] = -1;
  const auto verdicts = compare::compare_by_sketch_rule(csa().problem, sketches_of(csa()), got);
  EXPECT_EQ(verdict_of(verdicts, kTopk).verdict, compare::Verdict::kFail);
}

TEST(SketchRule, PassesTheSameResultsAndErrorsOfRounding) {
  Results got = csa().results;
  const Sketches sketches = sketches_of(csa());
  for (int pass = 0; pass < 2; ++pass) {
    for (const auto& v : compare::compare_by_sketch_rule(csa().problem, sketches, got)) {
      EXPECT_NE(v.verdict, compare::Verdict::kFail) << v.id.path() << " " << v.reason;
      if (pass == 0) {
        EXPECT_EQ(v.error, 0) << v.id.path();
      }
    }
    for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
      const DatasetId id = DatasetId::from_index(i);
      if (!got.has(id) || id == kTopk || id == DatasetId::forward(StageId::kIndexerLoss)) continue;
      const double unit = (id.is_forward() ? 1e-13 : 1e-12) * sketches[i]->largest;
      for (Index e = 0; e < got.at(id).size(); ++e)
        got.at(id)[e] += 0.2 * unit * normal(3, 4, static_cast<std::uint64_t>(e));
    }
  }
}

// Wherever it is: all projections move by it.
TEST(SketchRule, SeesOneEntryOfEveryDataset) {
  const Sketches sketches = sketches_of(csa());
  int tried = 0;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!csa().results.has(id) || id == kTopk || id == DatasetId::forward(StageId::kIndexerLoss)) continue;
    const Tensor& tensor = csa().results.at(id);
    const std::vector<bool> rows = specified_rows(id, csa().problem);
    const double limit = id.is_forward() ? 1e-13 : 1e-12;
    const double step =
        2.5 * limit * std::max(sketches[i]->largest, 1e-300) * std::sqrt(static_cast<double>(sketches[i]->counted));
    for (const Index e : sample_places(tensor.size(), 7)) {
      if (!rows[static_cast<std::size_t>(tensor.rank() ? e / tensor.row_size() : 0)] || !std::isfinite(tensor[e]))
        continue;
      Results got = csa().results;
      got.at(id)[e] += sketches[i]->largest > 0 ? step : 1e-9;
      const auto verdicts = compare::compare_by_sketch_rule(csa().problem, sketches, got);
      EXPECT_EQ(verdict_of(verdicts, id).verdict, compare::Verdict::kFail) << id.path() << " element " << e;
      ++tried;
    }
  }
  EXPECT_GT(tried, 250);
}

TEST(SketchRule, SaysInWhichRowsANormMoved) {
  Results got = csa().results;
  for (Index c = 0; c < got.at(kOut).row_size(); ++c) got.at(kOut).row(5)[c] *= 3;
  const auto verdicts = compare::compare_by_sketch_rule(csa().problem, sketches_of(csa()), got);
  const auto& v = verdict_of(verdicts, kOut);
  EXPECT_EQ(v.verdict, compare::Verdict::kFail);
  ASSERT_FALSE(v.worst.empty());
  EXPECT_EQ(v.worst[0], 5);
}

TEST(SketchRule, NeverPassesNanAndSaysWhatIsMissing) {
  Results got = csa().results;
  got.at(kOut)[7] = std::numeric_limits<double>::quiet_NaN();
  got.erase(DatasetId::forward(StageId::kQ));
  got.set(DatasetId::forward(StageId::kKv), Tensor({2, 2}));
  const auto verdicts = compare::compare_by_sketch_rule(csa().problem, sketches_of(csa()), got);
  EXPECT_EQ(verdict_of(verdicts, kOut).verdict, compare::Verdict::kFail);
  EXPECT_EQ(verdict_of(verdicts, DatasetId::forward(StageId::kQ)).verdict, compare::Verdict::kNotCompared);
  EXPECT_EQ(verdict_of(verdicts, DatasetId::forward(StageId::kKv)).verdict, compare::Verdict::kFail);
}

TEST(SketchRule, JudgesTheLossByItsCondition) {
  const DatasetId loss = DatasetId::forward(StageId::kIndexerLoss);
  const double unit = compare::loss_condition(csa().problem, csa().results);
  ASSERT_GT(unit, 0);
  for (const double factor : {0.9, 1.1}) {
    Results got = csa().results;
    got.at(loss)[0] += factor * 1e-13 * unit;
    const auto verdicts = compare::compare_by_sketch_rule(csa().problem, sketches_of(csa()), got);
    EXPECT_EQ(verdict_of(verdicts, loss).verdict == compare::Verdict::kFail, factor > 1) << factor;
  }
}

}  // namespace
}  // namespace plumbline
