#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/reduce.hpp"

namespace plumbline::reference {

/// log(exp(sink) + sum_j exp(z[j])) as top + rest, top the largest of the terms and rest in [0, log(n + 1)]: a caller
/// that subtracts two of these keeps the digits that their sum would have rounded away.
template <typename Scalar>
struct LogSumExp {
  Scalar top;
  Scalar rest;

  Scalar value() const { return top + rest; }
};

/// Over n logits, without overflow. sink = -inf acts as no sink; sink = +inf gives +inf; -inf only if there is neither
/// a logit nor a sink (then, and for +inf, rest is 0).
template <typename Scalar>
LogSumExp<Scalar> split_log_sum_exp(const Scalar* z, Index n, Scalar sink) {
  using std::exp, std::log;
  Scalar top = sink;
  for (Index j = 0; j < n; ++j) top = std::max(top, z[j]);
  if (std::isinf(top)) return {top, Scalar(0)};
  Scalar lane[kLanes] = {};
  for (Index j = 0; j < n; ++j) lane[j % kLanes] += exp(z[j] - top);
  return {top, log(detail::add_lanes(lane) + exp(sink - top))};
}

template <typename Scalar>
Scalar sink_log_sum_exp(const Scalar* z, Index n, Scalar sink) {
  return split_log_sum_exp(z, n, sink).value();
}

/// p[j] = exp(z[j] - lse); all zero when lse = +inf (sink = +inf). p may be z. Sums to less than 1: the sink's share is
/// missing, its value is 0.
template <typename Scalar>
void sink_softmax(const Scalar* z, Index n, Scalar lse, Scalar* p) {
  using std::exp;
  if (std::isinf(lse)) {
    std::fill(p, p + n, Scalar(0));
    return;
  }
  for (Index j = 0; j < n; ++j) p[j] = exp(z[j] - lse);
}

/// vjp of p = sink_softmax(z): dz = p * (dp - delta), delta = sum_j p dp; ddz may be dp.
template <typename Scalar>
void sink_softmax_vjp(const Scalar* p, Index n, const Scalar* dp, Scalar delta, Scalar* dz) {
  for (Index j = 0; j < n; ++j) dz[j] = p[j] * (dp[j] - delta);
}

/// d objective / d sink of one row: -exp(sink - lse) * delta; 0 for sink = +-inf.
template <typename Scalar>
Scalar sink_vjp(Scalar sink, Scalar lse, Scalar delta) {
  using std::exp;
  return std::isinf(sink) ? Scalar(0) : -exp(sink - lse) * delta;
}

/// Dense Jacobian of p with respect to (z, sink): [n, n+1], dp_i/dz_j = p_i ([i=j] - p_j), dp_i/dsink = -p_i p_sink.
template <typename Scalar>
Matrix<Scalar> sink_softmax_jacobian(const Scalar* z, Index n, Scalar sink) {
  using std::exp;
  const Scalar lse = sink_log_sum_exp(z, n, sink);
  Vector<Scalar> p(n);
  sink_softmax(z, n, lse, p.data());
  const Scalar p_sink = std::isinf(sink) ? Scalar(0) : exp(sink - lse);
  Matrix<Scalar> jacobian(n, n + 1);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j < n; ++j) jacobian(i, j) = p[i] * ((i == j ? Scalar(1) : Scalar(0)) - p[j]);
    jacobian(i, n) = -p[i] * p_sink;
  }
  return jacobian;
}

}  // namespace plumbline::reference
