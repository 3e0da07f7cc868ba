#pragma once
#include <vector>

#include "reference/budget/rules.hpp"
#include "reference/contract/precision.hpp"
#include "reference/matrix.hpp"
#include "reference/rope.hpp"

namespace plumbline::reference::budget {

using contract::NumberFormat;

/// One rounding: |x - rounded| <= u |x| + tiny. All zero where nothing is rounded.
struct Rounding {
  double u = 0, tiny = 0;
};

/// A matrix and a bound of each element's error; zero where the element is known exactly.
struct Estimate {
  Matrix<double> value, error;

  Estimate() = default;
  Estimate(Index rows, Index cols) : value(Matrix<double>::Zero(rows, cols)), error(Matrix<double>::Zero(rows, cols)) {}
  /// Known exactly.
  explicit Estimate(Matrix<double> exact)
      : value(std::move(exact)), error(Matrix<double>::Zero(value.rows(), value.cols())) {}

  Index rows() const { return value.rows(); }
  Index cols() const { return value.cols(); }
  bool exact() const { return error.size() == 0 || error.maxCoeff() == 0; }
  Estimate columns(Index first, Index count) const;
  void set_columns(Index first, const Estimate& part);
  /// Every element was rounded: a declared cast.
  void cast(const Rounding& rounding);
  void scale(double factor);
};

/// Roundoffs of a profile's arithmetic.
struct Arithmetic {
  double compute = 0;  ///< u of one element-wise operation
  double sum = 0;      ///< u of an addition inside a sum of products
  double tiny = 0;     ///< smallest subnormal of the compute format
  double rope = 0;     ///< u of cos and sin, beyond `compute`
  double angle = 0;    ///< relative error of an angle; 0: exact
  explicit Arithmetic(const contract::PrecisionProfile& profile);
};

/// Relative error of an fp32 angle t * f: roundings of f (its exponent, exp and the division of YaRN) and of the
/// product, in units of 2^-24. Basis: derived from the operations, one ulp each.
inline constexpr double kAngleRoundings = 6;

/// y = x b, b [inner, cols]:
///   B_y = accumulation over the inner axis + spread over k of B_x |b| + |y| ||B_x|| / ||x||
/// the last for errors that a whole row of x shares (those of its norm).
template <typename B>
Estimate product(const Estimate& x, const B& b, const Arithmetic& a) {
  const Index n = x.cols();
  Estimate y(x.rows(), b.cols());
  if (n == 0 || y.value.size() == 0) return y;
  // At most 16 partial sums are probed, none shorter than 32 terms.
  const Index chunk = std::max<Index>(32, (n + 15) / 16);
  Matrix<double> partial = Matrix<double>::Zero(x.rows(), b.cols());
  for (Index first = 0; first < n; first += chunk) {
    const Index count = std::min(chunk, n - first);
    y.value.noalias() += x.value.middleCols(first, count) * b.middleRows(first, count);
    partial = partial.cwiseMax(y.value.cwiseAbs());
  }
  if (n <= kFewTerms) {
    y.error.noalias() = x.value.cwiseAbs() * b.cwiseAbs();
    y.error *= static_cast<double>(n) * a.sum;
  } else {
    y.error.noalias() = x.value.cwiseAbs2() * b.cwiseAbs2();
    y.error = (kAccumulation * a.sum * std::sqrt(static_cast<double>(n))) * y.error.cwiseSqrt().cwiseMax(partial);
  }
  y.error.array() += static_cast<double>(n) * a.tiny;
  if (!x.exact()) {
    partial.noalias() = x.error.cwiseAbs2() * b.cwiseAbs2();
    y.error += kSpreadOfBudgets * partial.cwiseSqrt();
    for (Index r = 0; r < y.rows(); ++r)
      if (const double norm = x.value.row(r).norm(); norm > 0)
        y.error.row(r) += x.error.row(r).norm() / norm * y.value.row(r).cwiseAbs();
  }
  return y;
}

/// y = gain * x / sqrt(mean(x^2) + eps) for one row in place; gain null: none. `normalized`: u of a cast before the
/// gain.
///   B_y = |y| (4 u + half of the sum's relative error) + |gain| rho (B_x + |x| rho^2/n * spread of x B_x)
void norm(double* value, double* error, const double* gain, double eps, Index n, double normalized,
          const Arithmetic& a);

/// What a row adds to the gradient of a norm's gain, [n] each: its terms, their errors, and the part of these that
/// comes from the rounding of x, with its sign.
struct GainTerms {
  std::vector<double> value, error, alike;
  explicit GainTerms(Index n) : value(static_cast<std::size_t>(n)), error(value), alike(value) {}
};

/// dx from dy in place, of a norm of the exact or estimated row x; fills `gain_terms`, if wanted.
///   dx = rho (g - x s), g = gain dy, s = rho^2 (g . x) / n: both terms by absolute value
void norm_vjp(const double* x, const double* x_error, const double* gain, double eps, Index n, double* dy,
              double* dy_error, GainTerms* gain_terms, const Arithmetic& a);

/// Rotations of one position; sign -1 is the inverse.
///   B_u' = |cos| B_u + |sin| B_v + (2 u + u_rope) (|u cos| + |v sin|) + |v'| B_angle, and likewise v'
class Rotation {
 public:
  Rotation(const contract::LayerConfig& config, const Arithmetic& arithmetic);
  void operator()(double* value, double* error, Index width, Index t, double sign) const;

 private:
  Arithmetic a_;
  Vector<double> frequencies_;
};

/// Hadamard transform of one row in place: B = spread of B_x / sqrt(n) + u sqrt(log2 n) times the row's rms.
void hadamard_estimate(double* value, double* error, Index n, const Arithmetic& a);

}  // namespace plumbline::reference::budget
