#pragma once
#include "reference/matrix.hpp"

namespace plumbline::reference {

/// Number of interleaved partial sums: element i goes to lane i % kLanes, lanes are added pairwise. A fixed tree, so
/// the result depends on the values and their order alone (not on alignment, thread count or vector width).
inline constexpr Index kLanes = 8;

namespace detail {
template <typename Scalar>
Scalar add_lanes(const Scalar (&lane)[kLanes]) {
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}
}  // namespace detail

/// sum_i x[i]; 0 for n = 0.
template <typename Scalar>
Scalar sum(const Scalar* x, Index n) {
  Scalar lane[kLanes] = {};
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (Index l = 0; l < kLanes; ++l) lane[l] += x[i + l];
  for (Index l = 0; i < n; ++i, ++l) lane[l] += x[i];
  return detail::add_lanes(lane);
}

/// sum_i x[i] * y[i]; 0 for n = 0.
template <typename Scalar>
Scalar dot(const Scalar* x, const Scalar* y, Index n) {
  Scalar lane[kLanes] = {};
  Index i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (Index l = 0; l < kLanes; ++l) lane[l] += x[i + l] * y[i + l];
  for (Index l = 0; i < n; ++i, ++l) lane[l] += x[i] * y[i];
  return detail::add_lanes(lane);
}

}  // namespace plumbline::reference
