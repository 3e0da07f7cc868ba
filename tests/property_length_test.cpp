// Segments of every awkward length, down to nothing at all.
#include "tests/naive_attention.hpp"

namespace plumbline::tests {
namespace {

class LengthProperty : public testing::TestWithParam<Kind> {
 protected:
  static LayerConfig config() { return case_problem(GetParam(), "seq=1").config; }
  static std::vector<Index> lengths() {
    const Index r = std::max<Index>(config().ratio, 2), w = config().window;
    return {0, 1, r - 1, r, r + 1, 2 * r - 1, 2 * r, w - 1, w, w + 1, w + r};
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, LengthProperty, testing::ValuesIn(all_kinds()), kind_name);

/// A segment is the beginning of a longer one: forward to the last bit; and in its gradients, when the longer one's
/// further rows ask for nothing.
TEST_P(LengthProperty, ShortSegmentIsTheBeginningOfALongOne) {
  for (const Index length : lengths()) {
    SCOPED_TRACE("length " + std::to_string(length));
    const Problem segment = case_problem(GetParam(), "seed=61,seq=" + std::to_string(length));
    Problem longer = case_problem(GetParam(), "seed=61,seq=50");
    for (Index row = length; row < 50; ++row) mask_row(longer, row);
    const Results got = run(segment), whole = run(longer);
    EXPECT_TRUE(no_nan(got));
    const Index candidates = most_candidates(longer);
    const Results want = real_part(whole, longer, candidates), have = real_part(got, segment, candidates);
    for_each_dataset(have, [&](DatasetId id, const Tensor& tensor) {
      if (!has_rows(id)) {
        EXPECT_LE(difference(want.at(id), tensor), 1e-13) << id.path();
        return;
      }
      const Tensor& beginning = want.at(id);
      ASSERT_LE(tensor.shape()[0], beginning.shape()[0]);
      for (Index e = 0; e < tensor.size(); ++e) ASSERT_TRUE(equal_values(tensor[e], beginning[e])) << id.path();
      for (Index e = tensor.size(); e < beginning.size() && id.is_gradient(); ++e)
        ASSERT_EQ(beginning[e], 0) << id.path();
    });
  }
}

TEST_P(LengthProperty, EqualsTheDefinition) {
  std::string batch = "seed=62,seq=";
  for (const Index length : lengths()) batch += (batch.back() == '=' ? "" : "+") + std::to_string(length);
  for (const char* padding : {"", ",pad=8"}) {
    const Problem problem = case_problem(GetParam(), batch + padding);
    const Results results = run(problem);
    EXPECT_TRUE(no_nan(results));
    expect_naive_attention(problem, results, 1e-13);
  }
}

void expect_silence(const Problem& problem, const char* what) {
  SCOPED_TRACE(what);
  const Results results = run(problem);
  EXPECT_EQ(results.available(), all_datasets(problem.config));
  for_each_dataset(results, [&](DatasetId id, const Tensor& tensor) {
    EXPECT_EQ(tensor.shape(), shape_of(id.axes(), problem.config, problem.packing)) << id.path();
    const bool key =
        id.is_forward() && (info(*id.stage()).role == Role::kKey || info(*id.stage()).role == Role::kEntry);
    for (const double value : tensor.values()) {
      ASSERT_FALSE(std::isnan(value)) << id.path();
      if (!key) {
        ASSERT_EQ(value, fill_of(id)) << id.path();
      }
    }
  });
}

TEST_P(LengthProperty, BatchesWithoutAQueryAskForNothing) {
  Problem nothing = case_problem(GetParam(), "seq=0,seed=63");
  expect_silence(nothing, "one empty segment");
  nothing.packing = Packing{};
  expect_silence(nothing, "no segment");
  expect_silence(case_problem(GetParam(), "seq=0+0+0,seed=63"), "three empty segments");
  expect_silence(laid_out(nothing, Packing{{0, 17}, {0}, std::vector<std::uint8_t>(17, 0)}, std::nan("")),
                 "padding alone");
  expect_silence(case_problem(GetParam(), "seq=37+5,pad=8,mask=random:1,seed=63"), "all rows masked");
}

class EntryProperty : public testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, EntryProperty, testing::ValuesIn(compressing_kinds()), kind_name);

bool is_compressor(DatasetId id) {
  if (const auto stage = id.stage()) return info(*stage).presence != Presence::kAlways;
  return id.weight() && info(*id.weight()).presence != Presence::kAlways;
}

/// No segment is long enough for an entry, or its only entry holds padding, or every query comes before it is complete.
TEST_P(EntryProperty, WithoutVisibleEntryGradientsAreDefinedZeros) {
  const Index ratio = case_problem(GetParam(), "seq=1").config.ratio;
  const std::string brief = std::to_string(ratio - 1);
  Problem early = case_problem(GetParam(), "seed=64,seq=" + std::to_string(2 * ratio));
  for (Index row = ratio - 1; row < 2 * ratio; ++row) mask_row(early, row);
  for (const Problem& problem : {case_problem(GetParam(), "seed=64,seq=1+0+" + brief),
                                 case_problem(GetParam(), "seed=64,pad=16,seq=" + brief + "+1"), early}) {
    const Results results = run(problem);
    EXPECT_EQ(results.available(), all_datasets(problem.config));
    EXPECT_TRUE(no_nan(results));
    for_each_dataset(results, [&](DatasetId id, const Tensor& tensor) {
      if (id.is_gradient() && is_compressor(id) && !(id == DatasetId::gradient(StageId::kKlRows))) {
        EXPECT_TRUE(all_zero(tensor)) << id.path();
      }
    });
    EXPECT_FALSE(all_zero(results.at(DatasetId::hidden_gradient())));
    EXPECT_EQ(results.at(DatasetId::forward(StageId::kIndexerLoss))[0], 0);
  }
}

}  // namespace
}  // namespace plumbline::tests
