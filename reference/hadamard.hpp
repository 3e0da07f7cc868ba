#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

#include "reference/matrix.hpp"

namespace plumbline::reference {

/// Orthonormal Sylvester-Hadamard transform in place: x <- H x / sqrt(n), H[a,b] = (-1)^popcount(a & b), n a power of
/// two. Symmetric and its own inverse, so it is its own vjp.
template <typename Scalar>
void hadamard(Scalar* x, Index n) {
  using std::sqrt;
  for (Index half = 1; half < n; half *= 2)
    for (Index block = 0; block < n; block += 2 * half)
      for (Index i = block; i < block + half; ++i) {
        const Scalar u = x[i], v = x[i + half];
        x[i] = u + v;
        x[i + half] = u - v;
      }
  const Scalar scale = Scalar(1) / sqrt(Scalar(n));
  for (Index i = 0; i < n; ++i) x[i] *= scale;
}

/// The matrix itself, [n, n], written from its definition.
template <typename Scalar>
Matrix<Scalar> hadamard_jacobian(Index n) {
  using std::sqrt;
  Matrix<Scalar> jacobian(n, n);
  const Scalar scale = Scalar(1) / sqrt(Scalar(n));
  for (Index a = 0; a < n; ++a)
    for (Index b = 0; b < n; ++b)
      jacobian(a, b) = std::popcount(static_cast<std::uint64_t>(a & b)) % 2 == 0 ? scale : -scale;
  return jacobian;
}

}  // namespace plumbline::reference
