// select_topk against the definition, written as slowly as it is stated.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "reference/indexer.hpp"

namespace plumbline::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

/// Sorts everything: higher score first, equal scores (-0 = +0) by index, NaN as low as -inf.
template <typename Scalar>
std::vector<Index> sorted_topk(const std::vector<Scalar>& scores, Index k) {
  std::vector<Index> order(scores.size());
  std::iota(order.begin(), order.end(), Index{0});
  const auto value = [&](Index g) {
    const Scalar s = scores[static_cast<std::size_t>(g)];
    return s != s ? -std::numeric_limits<Scalar>::infinity() : s;
  };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return value(a) > value(b); });
  order.resize(std::min(order.size(), static_cast<std::size_t>(k)));
  std::sort(order.begin(), order.end());
  return order;
}

template <typename Scalar>
std::vector<Index> topk(const std::vector<Scalar>& scores, Index k) {
  return select_topk(scores.data(), static_cast<Index>(scores.size()), k);
}

TEST(TopK, ByHand) {
  using Picks = std::vector<Index>;
  EXPECT_EQ(topk<double>({}, 3), Picks{});
  EXPECT_EQ(topk<double>({5}, 1), Picks{0});
  EXPECT_EQ(topk<double>({1, 3, 2}, 2), (Picks{1, 2}));
  EXPECT_EQ(topk<double>({1, 3, 2}, 3), (Picks{0, 1, 2}));
  EXPECT_EQ(topk<double>({1, 3, 2}, 9), (Picks{0, 1, 2}));
  EXPECT_EQ(topk<double>({2, 2, 2, 2}, 2), (Picks{0, 1}));
  EXPECT_EQ(topk<double>({-0.0, 0.0, -0.0}, 1), Picks{0});
  EXPECT_EQ(topk<double>({0.0, -0.0, 0.0}, 2), (Picks{0, 1}));
  EXPECT_EQ(topk<double>({-1.0, -0.0, 0.0, -0.0}, 2), (Picks{1, 2}));
  EXPECT_EQ(topk<double>({kNan, -1e308, kNan, 0}, 2), (Picks{1, 3}));
  EXPECT_EQ(topk<double>({kNan, kNan, kNan}, 2), (Picks{0, 1}));
  EXPECT_EQ(topk<double>({kInf, 1, kInf, kInf}, 2), (Picks{0, 2}));
  EXPECT_EQ(topk<double>({-kInf, -kInf, 7, -kInf}, 2), (Picks{0, 2}));
}

template <typename Scalar>
void compare_random_scores(std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  const std::vector<Scalar> special = {Scalar(0.0),   Scalar(-0.0), Scalar(1),   Scalar(-1),     Scalar(kInf),
                                       Scalar(-kInf), Scalar(kNan), Scalar(0.5), Scalar(1e-310), -Scalar(1e-310)};
  for (int trial = 0; trial < 4000; ++trial) {
    const std::size_t n = engine() % 40;
    const std::uint64_t mix = engine() % 4;  // from all different to all drawn from a few values
    std::vector<Scalar> scores;
    for (std::size_t i = 0; i < n; ++i) {
      const Scalar random = Scalar(static_cast<double>(engine() % 2000001) - 1e6) / Scalar(7);
      scores.push_back(engine() % 4 < mix ? special[engine() % (mix == 3 ? special.size() : 4)] : random);
    }
    for (const Index k : {Index{1}, Index{2}, static_cast<Index>(engine() % 40 + 1), static_cast<Index>(n) + 1})
      ASSERT_EQ(topk(scores, k), sorted_topk(scores, k)) << "trial " << trial << " k " << k;
  }
}

TEST(TopK, RandomScoresInDouble) { compare_random_scores<double>(1); }
TEST(TopK, RandomScoresInLongDouble) { compare_random_scores<long double>(2); }

}  // namespace
}  // namespace plumbline::reference
