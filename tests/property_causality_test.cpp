// What a token does is seen at or after it, in its own segment; what is asked of a row comes from tokens at or before.
#include "tests/layer_runs.hpp"

namespace plumbline::tests {
namespace {

class CausalityProperty : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    problem_ = case_problem(GetParam(), "seq=40+25,pad=3,seed=23");
    before_ = run(problem_);
  }

  /// Whether the dataset's row lies in the segment of `token` and at (or ends) before / after it.
  Index segment_of_row(DatasetId id, Index row) const {
    if (id.axes()[0] == Axis::kToken) return problem_.packing.segment_of(row);
    return row < problem_.packing.groups(0, problem_.config.ratio) ? 0 : 1;
  }
  /// Position of a row's last token in its segment.
  Index position_of_row(DatasetId id, Index row) const {
    const Index b = segment_of_row(id, row);
    if (id.axes()[0] == Axis::kToken) return row - problem_.packing.offsets[static_cast<std::size_t>(b)];
    const Index first = b == 0 ? 0 : problem_.packing.groups(0, problem_.config.ratio);
    return (row - first + 1) * problem_.config.ratio - 1;
  }

  static bool same_row(const Tensor& a, const Tensor& b, Index row) {
    for (Index e = 0; e < a.row_size(); ++e)
      if (!equal_bits(a.row(row)[e], b.row(row)[e])) return false;
    return true;
  }

  Problem problem_;
  Results before_;
};
INSTANTIATE_TEST_SUITE_P(Kinds, CausalityProperty, testing::ValuesIn(all_kinds()), kind_name);

TEST_P(CausalityProperty, ATokenChangesNothingBeforeIt) {
  for (const Index token : {0, 1, 7, 12, 24, 39, 42, 50, 66}) {
    const Index segment = problem_.packing.segment_of(token);
    const Index position = token - problem_.packing.offsets[static_cast<std::size_t>(segment)];
    Problem changed = problem_;
    for (Index c = 0; c < changed.config.hidden; ++c) changed.hidden.row(token)[c] += 0.5 + double(c % 3);
    const Results after = run(changed);
    for_each_dataset(before_, [&](DatasetId id, const Tensor& tensor) {
      if (!id.is_forward() || !has_rows(id)) return;
      for (Index row = 0; row < tensor.shape()[0]; ++row)
        if (segment_of_row(id, row) != segment || position_of_row(id, row) < position) {
          ASSERT_TRUE(same_row(tensor, after.at(id), row))
              << "token " << token << " changes " << id.path() << " row " << row;
        }
    });
    // The last token in reach of its window is the furthest that must see it.
    const Index last = std::min(position + problem_.config.window - 1,
                                problem_.packing.lengths[static_cast<std::size_t>(segment)] - 1);
    for (const StageId id : {StageId::kOut, StageId::kAttnLse})
      for (const Index row : {token, token - position + last})
        EXPECT_FALSE(same_row(before_.at(DatasetId::forward(id)), after.at(DatasetId::forward(id)), row))
            << "token " << token << " is not seen by row " << row;
  }
}

TEST_P(CausalityProperty, TheWindowEndsAndEntriesReachBeyondIt) {
  const Index token = 2, beyond = token + problem_.config.window;
  Problem changed = problem_;
  for (Index c = 0; c < changed.config.hidden; ++c) changed.hidden.row(token)[c] += 0.5 + double(c % 3);
  const Results after = run(changed);
  const DatasetId kv = DatasetId::forward(StageId::kKv), out = DatasetId::forward(StageId::kOut);
  for (Index row = 0; row < problem_.packing.tokens(); ++row)
    EXPECT_EQ(same_row(before_.at(kv), after.at(kv), row), row != token);
  bool seen = false;
  for (Index row = beyond; row < problem_.packing.offsets[1]; ++row)
    seen |= !same_row(before_.at(out), after.at(out), row);
  EXPECT_EQ(seen, problem_.config.compressed());
}

TEST_P(CausalityProperty, ARowAsksNothingOfLaterTokens) {
  for (const Index row : {0, 9, 23, 39, 47}) {
    const Index segment = problem_.packing.segment_of(row);
    const Index position = row - problem_.packing.offsets[static_cast<std::size_t>(segment)];
    Problem changed = problem_;
    for (Index c = 0; c < changed.config.hidden; ++c) changed.grad_out.row(row)[c] += 0.5 + double(c % 3);
    const Results after = run(changed);
    for_each_dataset(before_, [&](DatasetId id, const Tensor& tensor) {
      if (!id.is_gradient() || !has_rows(id)) return;
      for (Index r = 0; r < tensor.shape()[0]; ++r)
        if (segment_of_row(id, r) != segment || position_of_row(id, r) > position) {
          ASSERT_TRUE(same_row(tensor, after.at(id), r)) << "row " << row << " changes " << id.path() << " row " << r;
        }
    });
    EXPECT_FALSE(same_row(before_.at(DatasetId::hidden_gradient()), after.at(DatasetId::hidden_gradient()), row));
  }
}

}  // namespace
}  // namespace plumbline::tests
