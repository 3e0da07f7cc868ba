// The gates themselves, on tensors made by hand.
#include "compare/gate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace plumbline::compare {
namespace {

using contract::NumberFormat;

/// A [8, 16] tensor of errors in units of a budget of 1e-3, around the value 1.
struct Case {
  std::vector<bool> rows = std::vector<bool>(8, true);
  Tensor truth{{8, 16}, 1.0}, got{{8, 16}, 1.0}, budget{{8, 16}, 1e-3};

  explicit Case(double error) {
    for (Index e = 0; e < got.size(); ++e) got[e] += (e % 2 == 0 ? error : -error) * 1e-3;
  }
  Deviation deviation() const { return measure_deviation(rows, truth, got, budget); }
};

TEST(Gate, DeviationsAreInUnitsOfTheBudget) {
  Case c(0.25);
  c.got[37] = 1 + 0.5e-3;
  const Deviation d = c.deviation();
  EXPECT_EQ(d.elements, 128);
  EXPECT_NEAR(d.largest, 0.5, 1e-9);
  EXPECT_EQ(d.worst, 37);
  EXPECT_NEAR(d.rms(), 0.2536, 1e-3);
}

TEST(Gate, RowsThatAreNotSpecifiedDoNotCount) {
  Case c(0);
  c.rows[3] = false;
  c.got[3 * 16] = std::numeric_limits<double>::quiet_NaN();
  c.got[3 * 16 + 1] = 100;
  EXPECT_EQ(c.deviation().elements, 112);
  EXPECT_EQ(c.deviation().pattern_errors, 0);
  EXPECT_EQ(c.deviation().largest, 0);
}

/// What is judged by its bound alone counts neither as one of many errors nor as a small one.
TEST(Gate, UnderflowDoesNotDiluteTheScale) {
  Case c(0.25);
  for (Index e = 0; e < 64; ++e) {
    c.budget[e] = 1e-40;
    c.got[e] = c.truth[e];
  }
  c.truth[64] = c.got[64] = std::numeric_limits<double>::infinity();
  const Deviation d = c.deviation();
  EXPECT_EQ(d.elements, 128);
  EXPECT_EQ(d.scaled, 63);
  EXPECT_NEAR(std::sqrt(d.scaled_squares / 63), 0.25, 1e-9);
  EXPECT_NEAR(d.scaled_largest, 0.25, 1e-9);
}

TEST(Gate, PatternsMustMatch) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto errors = [&](double want, double got, double budget) {
    Case c(0);
    c.truth[5] = want;
    c.got[5] = got;
    c.budget[5] = budget;
    return c.deviation().pattern_errors;
  };
  EXPECT_EQ(errors(1, nan, 1), 1);
  EXPECT_EQ(errors(1, infinity, 1), 1);
  EXPECT_EQ(errors(infinity, 1, 1), 1);
  EXPECT_EQ(errors(infinity, -infinity, 1), 1);
  EXPECT_EQ(errors(infinity, infinity, 1), 0);
  EXPECT_EQ(errors(nan, nan, 1), 0);
  EXPECT_EQ(errors(0, 1e-300, 0), 1);
  EXPECT_EQ(errors(0, -0.0, 0), 0);
}

Kappa kappa_of(double rms, double largest) {
  Kappa kappa;
  kappa.elements = 128;
  kappa.rms = rms;
  kappa.largest = largest;
  kappa.largest_group = rms;
  return kappa;
}

TEST(Gate, OneElementBeyondTheEnsemblesLimitIsSeen) {
  const Kappa kappa = kappa_of(0.01, 0.03);
  Case c(0.01);
  EXPECT_LT(ensemble_share(c.rows, c.truth, c.got, c.budget, kappa, NumberFormat::kFp64).value, 1);
  c.got[70] = 1 + 1.01e-3 * kappa.element_limit();
  const Share share = ensemble_share(c.rows, c.truth, c.got, c.budget, kappa, NumberFormat::kFp64);
  EXPECT_GT(share.value, 1);
  EXPECT_EQ(share.element, 70);
  // One unit in the last place of what is stored is always allowed.
  EXPECT_LT(ensemble_share(c.rows, c.truth, c.got, c.budget, kappa, NumberFormat::kBf16).value, 1);
}

TEST(Gate, AChannelThatIsOffAltogetherIsSeen) {
  Case c(0.01);
  c.truth = Tensor({64, 4}, 1.0);
  c.got = c.truth;
  c.budget = Tensor({64, 4}, 1e-3);
  c.rows.assign(64, true);
  const Kappa kappa = kappa_of(0.01, 0.03);
  for (Index r = 0; r < 64; ++r) c.got.row(r)[2] = 1 + 1e-3 * 1.1 * kappa.group_limit();
  const Share group = group_share(c.rows, c.truth, c.got, c.budget, kappa, NumberFormat::kFp64);
  EXPECT_GT(group.value, 1);
  EXPECT_EQ(group.element, 2);
  EXPECT_LT(ensemble_share(c.rows, c.truth, c.got, c.budget, kappa, NumberFormat::kFp64).value, 1);
}

TEST(Gate, EnsemblesWithoutAScaleDoNotJudge) {
  EXPECT_TRUE(kappa_of(0.01, 0.1).usable());
  EXPECT_FALSE(kappa_of(0, 0).usable());
  EXPECT_FALSE(kappa_of(1e-6, 1).usable());
  EXPECT_FALSE(kappa_of(0.01, std::numeric_limits<double>::infinity()).usable());
  Kappa small = kappa_of(0.01, 0.1);
  small.elements = kSmallestGroup - 1;
  EXPECT_FALSE(small.usable());
}

TEST(Gate, LimitsFollowTheNumberOfElements) {
  EXPECT_NEAR(largest_of(1), std::sqrt(2 * std::log(1e6)), 1e-12);
  EXPECT_GT(largest_of(1000000), largest_of(1000));
}

}  // namespace
}  // namespace plumbline::compare
