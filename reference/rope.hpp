#pragma once
#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference/contract/config.hpp"
#include "reference/matrix.hpp"

namespace plumbline::reference {

/// Rotary frequencies of a layer, one for each adjacent pair of its P rotated channels, [P/2] radians a token:
///   f[j] = base^(-2j/P), and with YaRN (only on layers with ratio > 1) f[j]/factor * ramp[j] + f[j] * (1 - ramp[j]),
///   dim(r) = P ln(orig / (2 pi r)) / (2 ln base), lo = max(floor(dim(beta_fast)), 0),
///   hi = min(ceil(dim(beta_slow)), P-1), plus 0.001 if they are equal, ramp[j] = clamp((j - lo)/(hi - lo), 0, 1).
/// One table serves queries, keys, compressed keys, indexer and the inverse rotation of the output. No magnitude
/// factor.
template <typename Scalar>
Vector<Scalar> rope_frequencies(const contract::LayerConfig& c) {
  using std::ceil, std::floor, std::log, std::pow;
  const Index pairs = c.rope_dim / 2;
  const Scalar base = Scalar(c.rope_base), channels = Scalar(c.rope_dim);
  Vector<Scalar> f(pairs);
  for (Index j = 0; j < pairs; ++j) f[j] = pow(base, -Scalar(2 * j) / channels);
  if (!c.yarn()) return f;
  const auto dimension = [&](double rotations) {
    return channels * log(Scalar(c.yarn_orig) / (2 * std::numbers::pi_v<Scalar> * Scalar(rotations))) / (2 * log(base));
  };
  const Scalar low = std::max(floor(dimension(c.beta_fast)), Scalar(0));
  Scalar high = std::min(ceil(dimension(c.beta_slow)), channels - 1);
  if (low == high) high += Scalar(0.001);
  for (Index j = 0; j < pairs; ++j) {
    const Scalar ramp = std::clamp((Scalar(j) - low) / (high - low), Scalar(0), Scalar(1));
    f[j] = f[j] / Scalar(c.yarn_factor) * ramp + f[j] * (1 - ramp);
  }
  return f;
}

/// cos and sin of t * f[j] for positions 0 .. positions-1.
template <typename Scalar>
class RopeTable {
 public:
  RopeTable(const contract::LayerConfig& config, Index positions)
      : pairs_(config.rope_dim / 2), cos_(positions, pairs_), sin_(positions, pairs_) {
    const Vector<Scalar> f = rope_frequencies<Scalar>(config);
#pragma omp parallel for schedule(static) if (worth_threads(positions, pairs_, 64))
    for (Index t = 0; t < positions; ++t)
      for (Index j = 0; j < pairs_; ++j) {
        cos_(t, j) = std::cos(Scalar(t) * f[j]);
        sin_(t, j) = std::sin(Scalar(t) * f[j]);
      }
  }

  /// The same rotations in another type; `rounding` is applied to each cos and sin.
  template <typename From, typename Rounding>
  RopeTable(const RopeTable<From>& from, Rounding rounding)
      : pairs_(from.pairs()), cos_(from.cos().unaryExpr(rounding)), sin_(from.sin().unaryExpr(rounding)) {}

  Index pairs() const { return pairs_; }
  const Matrix<Scalar>& cos() const { return cos_; }  ///< [positions, P/2]
  const Matrix<Scalar>& sin() const { return sin_; }

  /// Rotates the last P of `width` channels in place by +angle: (u, v) -> (u cos - v sin, u sin + v cos) for adjacent
  /// pairs. The layout stays interleaved. Its vjp is `rotate_back`.
  void rotate(Scalar* x, Index width, Index t) const { apply(x + width - 2 * pairs_, t, Scalar(1)); }
  /// The inverse rotation (angle negated). Its vjp is `rotate`.
  void rotate_back(Scalar* x, Index width, Index t) const { apply(x + width - 2 * pairs_, t, Scalar(-1)); }

  /// Dense Jacobian of `rotate` on `width` channels at position t: identity, then 2x2 rotations; [width, width].
  /// With inverse = true, of `rotate_back`.
  Matrix<Scalar> jacobian(Index width, Index t, bool inverse = false) const {
    Matrix<Scalar> m = Matrix<Scalar>::Identity(width, width);
    for (Index j = 0; j < pairs_; ++j) {
      const Index u = width - 2 * pairs_ + 2 * j, v = u + 1;
      const Scalar s = inverse ? -sin_(t, j) : sin_(t, j);
      m(u, u) = m(v, v) = cos_(t, j);
      m(u, v) = -s;
      m(v, u) = s;
    }
    return m;
  }

 private:
  void apply(Scalar* x, Index t, Scalar sign) const {
    for (Index j = 0; j < pairs_; ++j) {
      const Scalar c = cos_(t, j), s = sign * sin_(t, j);
      const Scalar u = x[2 * j], v = x[2 * j + 1];
      x[2 * j] = u * c - v * s;
      x[2 * j + 1] = u * s + v * c;
    }
  }

  Index pairs_;
  Matrix<Scalar> cos_, sin_;
};

}  // namespace plumbline::reference
