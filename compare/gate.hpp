#pragma once
#include <string>
#include <vector>

#include "reference/contract/precision.hpp"
#include "reference/contract/problem.hpp"

namespace plumbline::compare {

using contract::Index;
using contract::Tensor;

/// Smallest group of elements whose rms is judged, and smallest tensor that the ensemble judges. Basis: below it a
/// correct run's rms scatters by more than 10 %.
inline constexpr Index kSmallestGroup = 64;
/// A group's rms may exceed the ensemble's by this factor. Basis: docs/evidence.
inline constexpr double kGroupFactor = 2.5;
/// Probability per tensor with which a correct run may exceed the ensemble gate.
inline constexpr double kAlarm = 1e-6;

/// Largest of n independent normal errors in standard deviations, exceeded with probability kAlarm:
/// sqrt(2 ln(n / kAlarm)).
double largest_of(Index n);
/// What the ensemble gate allows in units of kappa: largest_of(n) times kTailFactor.
inline constexpr double kTailFactor = 2.5;
/// Both gates allow at least this multiple of the ensemble's own extreme: budgets bound all elements, but some more
/// narrowly than others. Basis: docs/evidence.
inline constexpr double kExtremeFactor = 3;
/// Chained errors may be larger by this factor: a deviation at the start that isolated gates allow is amplified alike
/// in all that follows. Basis: docs/evidence.
inline constexpr double kChainedSlack = 2;
/// Where the ensemble's extreme is beyond so many times what the gate would allow, errors have no scale: an exponent
/// errs by more than 1, say. Only patterns and bounds are judged then. Basis: docs/evidence.
inline constexpr double kScaleLimit = 10;
/// Elements with smaller budgets are judged by their bounds alone, and do not count in kappa: underflow does not follow
/// it.
inline constexpr double kSmallestBudget = 0x1p-100;

/// Errors of one tensor against its truth, in units of its budgets.
struct Deviation {
  Index elements = 0;         ///< compared
  Index pattern_errors = 0;   ///< NaN, Inf or a number where the truth has something else; numbers off where B is 0
  double largest = 0;         ///< max |y - y*| / B
  double sum_of_squares = 0;  ///< of (y - y*) / B
  Index scaled = 0;           ///< elements with B >= kSmallestBudget; of these alone:
  double scaled_largest = 0, scaled_squares = 0;
  Index worst = -1;  ///< element of `largest`, or of the first pattern error

  double rms() const;
};

/// `rows`: which rows of axis 0 count.
Deviation measure_deviation(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got,
                            const Tensor& budget);

/// How the errors of correct implementations of a profile are distributed in one tensor, in units of the budgets B.
struct Kappa {
  Index elements = 0;    ///< of the tensor that the ensemble judges: others would dilute its scale
  double rms = 0;        ///< of (y - y*) / B over them and the ensemble
  double largest = 0;    ///< max |y - y*| / B
  double least_rms = 0;  ///< of one member
  double most_rms = 0;
  double largest_group = 0;  ///< max rms(y - y*) / rms(B) of a group

  /// Whether the ensemble can judge the tensor: it is large enough, its errors are not all zero and have a scale.
  bool usable() const;
  double element_limit() const;  ///< in units of B
  double group_limit() const;    ///< in units of rms(B)
};

/// Share of a gate's limit that a tensor uses: up to 1 passes.
struct Share {
  double value = 0;
  Index element = -1;                     ///< where, or the first element of the group
  double error_rms = 0, allowed_rms = 0;  ///< of a group
};

/// max |y - y*| / (element_limit B + ulp(y*)) over elements.
Share ensemble_share(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget,
                     const Kappa& kappa, contract::NumberFormat stored);

/// max over groups of rms(y - y*) / (group_limit rms(B) + ulp / 2): rows (all but the last axis fixed) and channels
/// (the last axis fixed), each of at least kSmallestGroup elements.
Share group_share(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget,
                  const Kappa& kappa, contract::NumberFormat stored);

/// The largest rms(y - y*) / rms(B) of a group.
double largest_group(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget);

}  // namespace plumbline::compare
