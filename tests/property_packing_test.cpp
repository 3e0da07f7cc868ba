// A packed batch is its segments and nothing else: neither their neighbours nor padding reach them.
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

constexpr const char* kBatch = "seq=37+3+0+18+1,seed=3";
constexpr const char* kMaskedBatch = "seq=37+29+18,pad=8,mask=random:0.3,seed=4";
/// Crosses the body's blocks of tokens and its tiles of queries.
constexpr const char* kLongBatch = "seq=545+70+3+49,mask=random:0.2,seed=5";

constexpr DatasetId kMaxLogits = DatasetId::forward(StageId::kMaxLogits);

class PackingProperty : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, PackingProperty, testing::ValuesIn(all_kinds()), kind_name);

/// A segment's share of the batch's loss: its valid rows among all, or 1 where the loss is a sum.
double loss_share(const Problem& problem, const Problem& alone) {
  if (problem.config.per_token_loss) return 1;
  return double(alone.packing.valid_rows()) / double(std::max<Index>(1, problem.packing.valid_rows()));
}

/// Rows bit for bit; with the mean loss the indexer's gradients, which carry 1/N, within rounding.
void expect_rows_of_segment(const Results& want, const Results& got, double share) {
  EXPECT_TRUE(
      same_bits(want, got, [&](DatasetId id) { return has_rows(id) && (!is_indexer_gradient(id) || share == 1); }));
  EXPECT_TRUE(
      close(scaled(want, share), got, 1e-13, [](DatasetId id) { return has_rows(id) && is_indexer_gradient(id); }));
}

void expect_segments_alone(const Problem& problem) {
  const Results packed = run(problem);
  const auto of_loss = [](DatasetId id) {
    return is_indexer_gradient(id) || id == DatasetId::forward(StageId::kIndexerLoss);
  };
  Results total;
  for (Index b = 0; b < problem.packing.segments(); ++b) {
    SCOPED_TRACE("segment " + std::to_string(b));
    const Problem alone = segment_alone(problem, b);
    const Results own = run(alone);
    const double share = loss_share(problem, alone);
    const Index candidates = most_candidates(problem);
    expect_rows_of_segment(real_part(own, alone, candidates), real_part(packed, problem, candidates, b), share);
    const Results weighted = scaled(own, share, of_loss);
    if (b == 0) {
      total = weighted;
      continue;
    }
    const Tensor before = total.at(kMaxLogits);
    total = plus(total, 1, weighted, [](DatasetId id) { return !has_rows(id); });
    for (Index h = 0; h < before.size(); ++h) total.at(kMaxLogits)[h] = std::max(before[h], own.at(kMaxLogits)[h]);
  }
  EXPECT_TRUE(close(total, packed, 1e-13, [](DatasetId id) { return !has_rows(id); }));
}

TEST_P(PackingProperty, BatchEqualsItsSegmentsAlone) {
  expect_segments_alone(case_problem(GetParam(), kBatch));
  expect_segments_alone(case_problem(GetParam(), kMaskedBatch));
}

TEST_P(PackingProperty, LongBatchEqualsItsSegmentsAlone) {
  expect_segments_alone(case_problem(GetParam(), kLongBatch));
}

/// `rows[b]` physical rows for each segment of `lengths[b]` real ones.
Packing packing_of(const std::vector<Index>& lengths, const std::vector<Index>& rows) {
  Packing packing;
  packing.lengths = lengths;
  for (const Index count : rows) packing.offsets.push_back(packing.offsets.back() + count);
  packing.row_valid.assign(static_cast<std::size_t>(packing.tokens()), 0);
  return packing;
}

TEST_P(PackingProperty, PaddingChangesNoBit) {
  const Problem bare = case_problem(GetParam(), "seq=21+3+0+18+1,mask=random:0.2,seed=6");
  const std::vector<Packing> layouts = {
      make_packing(bare.packing.lengths, 8), make_packing(bare.packing.lengths, 5),
      packing_of(bare.packing.lengths, {22, 40, 9, 18, 7}),                      // an empty segment of padding alone
      packing_of({0, 21, 3, 0, 18, 1, 0}, {13, 21 + 12, 3, 0, 18 + 1, 1, 30})};  // more of them, at both ends
  const Results unpadded = run(bare);
  for (const double poison : {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity, 1e300, 0.0})
    for (std::size_t l = 0; l < layouts.size(); ++l) {
      SCOPED_TRACE("layout " + std::to_string(l) + ", padding " + std::to_string(poison));
      const Problem padded = laid_out(bare, layouts[l], poison);
      const Results got = run(padded);
      const Index candidates = most_candidates(padded);
      EXPECT_TRUE(same_bits(real_part(unpadded, bare, candidates), real_part(got, padded, candidates)));
    }
}

TEST_P(PackingProperty, PaddingReceivesNoGradient) {
  const Problem problem = case_problem(GetParam(), "seq=21+3+0+18+1,pad=16,seed=7");
  for_each_dataset(run(problem), [&](DatasetId id, const Tensor& tensor) {
    if (!id.is_gradient() || !has_rows(id)) return;
    std::vector<bool> real(static_cast<std::size_t>(tensor.shape()[0]), false);
    for (const Index row : real_rows_of(id, problem)) real[static_cast<std::size_t>(row)] = true;
    for (Index row = 0; row < tensor.shape()[0]; ++row)
      for (Index e = 0; e < tensor.row_size() && !real[static_cast<std::size_t>(row)]; ++e)
        ASSERT_EQ(tensor.row(row)[e], 0) << id.path() << " row " << row;
  });
}

}  // namespace
}  // namespace plumbline::tests
