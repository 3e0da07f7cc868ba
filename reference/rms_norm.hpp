#pragma once
#include <cmath>

#include "reference/reduce.hpp"

namespace plumbline::reference {

/// 1 / sqrt(mean(x^2) + eps) over n >= 1 channels.
template <typename Scalar>
Scalar inverse_rms(const Scalar* x, Index n, Scalar eps) {
  using std::sqrt;
  return Scalar(1) / sqrt(dot(x, x, n) / Scalar(n) + eps);
}

/// Root-mean-square normalisation of one row: y = gain * x / sqrt(mean(x^2) + eps).
/// `gain` is [n], or null for the weightless norm of each query head. y may be x.
template <typename Scalar>
void rms_norm(const Scalar* x, const Scalar* gain, Scalar eps, Index n, Scalar* y) {
  const Scalar rho = inverse_rms(x, n, eps);
  for (Index i = 0; i < n; ++i) y[i] = gain ? gain[i] * (x[i] * rho) : x[i] * rho;
}

/// Its vjp. With g = gain * dy and rho as above:
///   dx = rho * g - x * rho^3 * (g . x) / n      dgain += dy * x * rho
/// dx may be dy; `dgain` may be null.
template <typename Scalar>
void rms_norm_vjp(const Scalar* x, const Scalar* gain, Scalar eps, Index n, const Scalar* dy, Scalar* dx,
                  Scalar* dgain) {
  const Scalar rho = inverse_rms(x, n, eps);
  if (dgain)
    for (Index i = 0; i < n; ++i) dgain[i] += dy[i] * (x[i] * rho);
  Scalar lane[kLanes] = {};
  for (Index i = 0; i < n; ++i) {
    const Scalar g = gain ? gain[i] * dy[i] : dy[i];
    lane[i % kLanes] += g * x[i];
    dx[i] = g;
  }
  const Scalar along = detail::add_lanes(lane) * rho * rho / Scalar(n);
  for (Index i = 0; i < n; ++i) dx[i] = rho * (dx[i] - x[i] * along);
}

/// Dense Jacobian dy_i/dx_j = gain_i * (rho [i = j] - rho^3 x_i x_j / n), [n, n]; gain null: weightless.
template <typename Scalar>
Matrix<Scalar> rms_norm_jacobian(const Scalar* x, const Scalar* gain, Scalar eps, Index n) {
  const Scalar rho = inverse_rms(x, n, eps);
  Matrix<Scalar> jacobian(n, n);
  for (Index i = 0; i < n; ++i)
    for (Index j = 0; j < n; ++j)
      jacobian(i, j) =
          (gain ? gain[i] : Scalar(1)) * ((i == j ? rho : Scalar(0)) - rho * rho * rho * x[i] * x[j] / Scalar(n));
  return jacobian;
}

/// Dense Jacobian with respect to the gain: dy_i/dgain_j = x_i rho [i = j], [n, n].
template <typename Scalar>
Matrix<Scalar> rms_norm_gain_jacobian(const Scalar* x, Scalar eps, Index n) {
  const Scalar rho = inverse_rms(x, n, eps);
  Matrix<Scalar> jacobian = Matrix<Scalar>::Zero(n, n);
  for (Index i = 0; i < n; ++i) jacobian(i, i) = x[i] * rho;
  return jacobian;
}

}  // namespace plumbline::reference
