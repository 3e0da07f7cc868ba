#pragma once
#include <algorithm>
#include <cmath>

#include "reference/contract/types.hpp"

// The constants and combination rules of error budgets. A budget B bounds, element by element, the error that a correct
// implementation of a precision profile may make:
//
//   B = u_out |y|                                   the value is stored
//     + kCast * spread over v of u_c |dy/dv| |v|     for each cast point c, v the values rounded there
//     + accumulation(n)                             of a sum of n terms
//     + spread over x of |dy/dx| B_x                of inputs x that are not known exactly
//     + n * smallest subnormal
namespace plumbline::reference::budget {

using contract::Index;

/// Slack on cast points, for second-order terms and roundings that meet. Basis: derived (u^2 terms are below 1 % for
/// bf16; two casts of the same value add up to at most 1.5 times one of them when one is fp32).
inline constexpr double kCast = 1.5;

/// Errors of a sum of n terms in any order, in units of u sqrt(n) times its magnitude. Basis: each of the n additions
/// errs by at most u times the partial sum, independently; 6 standard deviations of a uniform error are 3.5, the rest
/// is for partial sums larger than the largest one probed.
inline constexpr double kAccumulation = 6;

/// Up to so many terms are bounded by n u sum |terms| instead, which no order exceeds. Basis: derived.
inline constexpr Index kFewTerms = 16;

/// Independent errors, each at most e_i: their sum stays below kSpread * ||e||_2. Basis: derived; a uniform error has
/// standard deviation e_i / sqrt(3), so this is 6.9 of them.
inline constexpr double kSpread = 4;

/// The same where the e_i are budgets themselves, whose errors' rms is at most 0.43 of them. Basis: measured,
/// 2026-12-01, on emulated runs of every kind, regime and profile.
inline constexpr double kSpreadOfBudgets = 2;

/// Error of a sum of n terms with roundoff u: `value` its result, `l1` and `l2` norms of the terms, `partial` the
/// largest partial sum probed.
inline double accumulation(double u, Index n, double value, double l1, double l2, double partial) {
  if (n <= kFewTerms) return static_cast<double>(n) * u * l1;
  return kAccumulation * u * std::sqrt(static_cast<double>(n)) * std::max({std::abs(value), l2, partial});
}

/// Relative error of a sum of n positive terms.
inline double positive_sum(double u, Index n) { return accumulation(u, n, 1, 1, 1, 1); }

/// Absolute error of p = exp(...) <= 1 whose exponent errs by `error`: p expm1(error), and at most 1.
inline double moved_probability(double p, double error) {
  return std::min(1.0, p * std::expm1(std::min(error, 700.0)));
}

/// n independent errors of norms l1 and l2.
inline double spread(Index n, double l1, double l2) { return n <= kFewTerms ? l1 : std::min(l1, kSpread * l2); }
/// The same when only the 2-norm is at hand.
inline double spread(Index n, double l2) { return std::min(kSpread, std::sqrt(static_cast<double>(n))) * l2; }

/// Error of log sum_j exp(x_j), from each term's share p_j and the error of its exponent: the spread of p_j
/// expm1(error), and at most the largest error, which no weighted mean exceeds.
class LogSumError {
 public:
  void add(double p, double error) {
    const double moved = p * std::expm1(std::min(error, 700.0));
    ++terms_;
    l1_ += moved;
    squares_ += moved * moved;
    largest_ = std::max(largest_, error);
  }
  double bound() const { return std::min(spread(terms_, l1_, std::sqrt(squares_)), largest_); }

 private:
  Index terms_ = 0;
  double l1_ = 0, squares_ = 0, largest_ = 0;
};

}  // namespace plumbline::reference::budget
