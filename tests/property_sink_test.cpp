// Attention sinks from -inf to +inf: limits as the contract states them, and never a NaN.
#include "tests/naive_attention.hpp"

namespace plumbline::tests {
namespace {

constexpr const char* kBatch = "seq=37+18,pad=8,mask=random:0.2,seed=43";

class SinkProperty : public testing::TestWithParam<Kind> {
 protected:
  static Problem with_sink(const std::string& sink) {
    return case_problem(GetParam(), std::string(kBatch) + (sink.empty() ? "" : ",sink=" + sink));
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, SinkProperty, testing::ValuesIn(all_kinds()), kind_name);

TEST_P(SinkProperty, EqualsTheDefinitionAtEverySize) {
  for (const char* sink : {"", "-inf", "-700", "700", "5000", "700:0", "inf:0", "-inf:0", "inf"}) {
    SCOPED_TRACE(sink);
    const Problem problem = with_sink(sink);
    const Results results = run(problem);
    EXPECT_TRUE(no_nan(results));
    expect_naive_attention(problem, results, 1e-13);
  }
}

TEST_P(SinkProperty, MinusInfinityIsNoSink) {
  const Results none = run(with_sink("-inf"));
  EXPECT_TRUE(same_values(run(with_sink("-1e4")), none));
  EXPECT_TRUE(all_zero(none.at(DatasetId::gradient(WeightId::kAttnSink))));
}

TEST_P(SinkProperty, AllPlusInfinitySilencesTheLayer) {
  const Problem problem = with_sink("inf");
  const Results results = run(problem);
  for (const StageId id : {StageId::kAttnOut, StageId::kAttnOutDerotated, StageId::kOLatent, StageId::kOut})
    EXPECT_TRUE(all_zero(results.at(DatasetId::forward(id)))) << info(id).name;
  for (const Index row : real_rows(problem.packing))
    for (Index h = 0; h < problem.config.heads; ++h)
      EXPECT_EQ(results.at(DatasetId::forward(StageId::kAttnLse)).row(row)[h], is_valid(problem, row) ? kInfinity : 0);
  // Nothing comes through attention, and the full teacher has no mass; what is asked of attn_out stays.
  const bool has_teacher = problem.config.teacher == Teacher::kCompressedOnly;
  for_each_dataset(results, [&](DatasetId id, const Tensor& tensor) {
    const bool asked = id == DatasetId::gradient(StageId::kAttnOut) ||
                       id == DatasetId::gradient(StageId::kAttnOutDerotated) ||
                       id == DatasetId::gradient(StageId::kOLatent) || id == DatasetId::gradient(StageId::kOut) ||
                       id == DatasetId::gradient(StageId::kKlRows) || (has_teacher && is_indexer(id));
    if (id.is_gradient()) {
      EXPECT_EQ(all_zero(tensor), !asked) << id.path();
    }
  });
  if (!problem.config.indexer || has_teacher) return;
  for (const StageId id : {StageId::kTeacher, StageId::kKlRows, StageId::kIndexerLoss})
    EXPECT_TRUE(all_zero(results.at(DatasetId::forward(id)))) << info(id).name;
}

TEST_P(SinkProperty, PlusInfinitySilencesOneHead) {
  const Problem plain = with_sink(""), problem = with_sink("inf:0");
  const Results before = run(plain), results = run(problem);
  EXPECT_TRUE(no_nan(results));
  const Index heads = problem.config.heads, dim = problem.config.head_dim;
  const Tensor &out = results.at(DatasetId::forward(StageId::kAttnOut)),
               &plain_out = before.at(DatasetId::forward(StageId::kAttnOut)),
               &dq = results.at(DatasetId::gradient(StageId::kQ));
  for (const Index row : real_rows(problem.packing))
    for (Index e = 0; e < heads * dim; ++e) {
      EXPECT_EQ(out.row(row)[e], e < dim ? 0 : plain_out.row(row)[e]);
      if (e < dim) {
        EXPECT_EQ(dq.row(row)[e], 0);
      }
    }
  EXPECT_EQ(results.at(DatasetId::gradient(WeightId::kAttnSink))[0], 0);
  EXPECT_TRUE(same_bits(before, results, [](DatasetId id) { return id == DatasetId::forward(StageId::kMaxLogits); }));
}

class TeacherMass : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, TeacherMass, testing::ValuesIn(indexing_kinds()), kind_name);

bool is_loss(DatasetId id) {
  return is_indexer_gradient(id) || id == DatasetId::forward(StageId::kTeacher) ||
         id == DatasetId::forward(StageId::kIndexerLoss) || id == DatasetId::forward(StageId::kKlRows);
}

/// With every key's share far below the smallest double, the teacher still is what the shares' ratios say; raising all
/// sinks together changes nothing.
TEST_P(TeacherMass, MayUnderflowInEveryHead) {
  Problem problem = case_problem(GetParam(), std::string(kBatch) + ",sink=700");
  Tensor& sink = problem.weight(WeightId::kAttnSink);
  for (Index h = 0; h < sink.size(); ++h) sink[h] += double(h % 3);
  const Results moderate = run(problem);
  const Tensor& teacher = moderate.at(DatasetId::forward(StageId::kTeacher));
  for (const Index row : real_rows(problem.packing)) {
    const double sum = std::accumulate(teacher.row(row), teacher.row(row) + teacher.row_size(), 0.0);
    const bool has_candidates =
        is_valid(problem, row) && moderate.at(DatasetId::forward(StageId::kTopk)).row(row)[0] >= 0;
    EXPECT_NEAR(sum, has_candidates ? 1 : 0, 1e-14) << "row " << row;
  }
  for (const double rise : {4300.0, 1e9, 0x1p60}) {
    Problem deep = problem;
    for (double& value : deep.weight(WeightId::kAttnSink).values()) value += rise;
    const Results results = run(deep);
    EXPECT_TRUE(no_nan(results));
    EXPECT_TRUE(all_zero(results.at(DatasetId::forward(StageId::kAttnOut))));
    if (rise < 0x1p52) {
      EXPECT_TRUE(close(moderate, results, 1e-12, is_loss)) << rise;
    }
    if (rise == 4300.0) expect_naive_attention(deep, results, 1e-13);
  }
}

/// Heads whose mass vanishes beside the others' add nothing.
TEST_P(TeacherMass, OfDeepHeadsVanishesBesideShallowOnes) {
  if (GetParam().name == std::string_view("csa_compressed_only") || GetParam().name == std::string_view("one_head"))
    return;
  Problem deep = case_problem(GetParam(), kBatch), silent = deep;
  deep.weight(WeightId::kAttnSink)[1] = 5000;
  silent.weight(WeightId::kAttnSink)[1] = kInfinity;
  EXPECT_TRUE(same_values(run(deep), run(silent), is_loss));
}

}  // namespace
}  // namespace plumbline::tests
