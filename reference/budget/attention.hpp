#pragma once
#include <limits>

#include "reference/budget/ledger.hpp"
#include "reference/budget/sum.hpp"
#include "reference/query_tile.hpp"
#include "reference/sink_softmax.hpp"

// Budgets of reference/attention.hpp, query by query.
namespace plumbline::reference::budget {

/// z = D^(-1/2) q . key with its error, [heads, keys]; q [heads, D], keys [n, D].
inline Estimate logit_estimate(const Ledger& ledger, const Estimate& q, const Estimate& keys) {
  const Arithmetic& a = ledger.arithmetic;
  const double scale = 1 / std::sqrt(static_cast<double>(q.cols()));
  Estimate z = product(q, keys.value.transpose(), a);
  if (!keys.exact()) {
    z.error += kSpreadOfBudgets * (q.value.cwiseAbs2() * keys.error.cwiseAbs2().transpose()).cwiseSqrt();
    for (Index j = 0; j < keys.rows(); ++j)
      if (const double norm = keys.value.row(j).norm(); norm > 0)
        z.error.col(j) += keys.error.row(j).norm() / norm * z.value.col(j).cwiseAbs();
  }
  z.scale(scale);
  z.error += 2 * a.compute * z.value.cwiseAbs();
  z.cast(ledger.cast(CastPoint::kLogit));
  return z;
}

/// Absolute error of p = exp(z - lse) at a fixed lse: `moved_probability` of B_z + u (|z - lse| + 3).
inline Matrix<double> moved_probabilities(const Ledger& ledger, const Matrix<double>& p, const Estimate& z,
                                          const Vector<double>& lse) {
  const double u = ledger.arithmetic.compute;
  Matrix<double> e(z.rows(), z.cols());
  for (Index h = 0; h < z.rows(); ++h)
    for (Index j = 0; j < z.cols(); ++j) {
      const double distance = std::isfinite(lse[h]) ? std::abs(z.value(h, j) - lse[h]) : 0;
      e(h, j) = moved_probability(p(h, j), z.error(h, j) + u * (distance + 3));
    }
  return e;
}

/// One query's attention and what its errors are made of.
struct AttentionEstimate {
  Estimate z;            ///< [heads, keys]
  Matrix<double> p;      ///< [heads, keys]
  Matrix<double> moved;  ///< absolute error of p, at a fixed lse
  Estimate lse;          ///< [1, heads]
  Estimate out;          ///< [heads, D]
};

///   attn_lse: spread of p B_z + the sum's relative error
///   attn_out: spread of p |key| u_p (cast of p) + spread of p |key - out| B_z + accumulation + |out| B_lse, and spread
///   of p B_key
inline AttentionEstimate attention_estimate(const Ledger& ledger, const Estimate& q, const Estimate& keys) {
  const Arithmetic& a = ledger.arithmetic;
  const Index heads = q.rows(), n = keys.rows(), dim = keys.cols();
  const double* sink = ledger.vector(WeightId::kAttnSink);
  AttentionEstimate e;
  e.z = logit_estimate(ledger, q, keys);
  e.lse = Estimate(1, heads);
  e.p.resize(heads, n);
  Vector<double> lse(heads);
  for (Index h = 0; h < heads; ++h) {
    lse[h] = sink_log_sum_exp(e.z.value.row(h).data(), n, sink[h]);
    sink_softmax(e.z.value.row(h).data(), n, lse[h], e.p.row(h).data());
  }
  e.moved = moved_probabilities(ledger, e.p, e.z, lse);
  const Matrix<double>& moved = e.moved;
  const double sum_error = positive_sum(a.compute, n + 1) + 3 * a.compute;
  for (Index h = 0; h < heads; ++h) {
    e.lse.value(0, h) = lse[h];
    if (!std::isfinite(lse[h])) continue;
    LogSumError sum;
    for (Index j = 0; j < n; ++j)
      sum.add(e.p(h, j), e.z.error(h, j) + a.compute * (std::abs(e.z.value(h, j) - lse[h]) + 3));
    e.lse.error(0, h) = sum.bound() + sum_error + a.compute * std::abs(lse[h]);
  }
  e.out = Estimate(heads, dim);
  e.out.value.noalias() = e.p * keys.value;
  const Matrix<double> squares = keys.value.cwiseAbs2(), p2 = e.p.cwiseAbs2(), m2 = moved.cwiseAbs2();
  const Matrix<double> terms = (p2 * squares).cwiseSqrt();  // ||p key||_2
  const double cast = kCast * ledger.cast(CastPoint::kProbability).u;
  // sum_j m_j^2 (key_j - out)^2, expanded
  Matrix<double> centred = m2 * squares - 2 * e.out.value.cwiseProduct(m2 * keys.value);
  for (Index h = 0; h < heads; ++h) centred.row(h) += m2.row(h).sum() * e.out.value.row(h).cwiseAbs2();
  const double factor = std::min(kSpread, std::sqrt(static_cast<double>(n)));
  // A p that underflows is off by `tiny`, of its cast too.
  const double underflow = static_cast<double>(n) * (a.tiny + ledger.cast(CastPoint::kProbability).tiny) *
                           std::max(1.0, keys.value.cwiseAbs().maxCoeff());
  for (Index h = 0; h < heads; ++h)
    for (Index c = 0; c < dim; ++c) {
      const double out = std::abs(e.out.value(h, c)), l2 = terms(h, c);
      const double order = n <= kFewTerms ? static_cast<double>(n) * a.sum * std::sqrt(static_cast<double>(n)) * l2
                                          : accumulation(a.sum, n, out, 0, l2, 0);
      e.out.error(h, c) =
          cast * std::max(out, factor * l2) + factor * std::sqrt(std::max(centred(h, c), 0.0)) + order +
          out * (sum_error + 2 * a.compute + (std::isfinite(lse[h]) ? a.compute * std::abs(lse[h]) : 0)) + underflow;
    }
  if (!keys.exact()) e.out.error += kSpreadOfBudgets * (p2 * keys.error.cwiseAbs2()).cwiseSqrt();
  return e;
}

/// What one query's backward pass adds.
struct AttentionGradientEstimate {
  Estimate dq;     ///< [heads, D]
  Estimate dz;     ///< D^(-1/2) dz, [heads, keys]: with q makes dkey
  Estimate p;      ///< with dattn_out makes dkey
  Estimate dsink;  ///< [1, heads]
};

/// `lse` [1, heads] and `out` [heads, D]: what is known of attn_lse and attn_out; dout [heads, D] of its cotangent.
///   dz = p (dp - delta): p (B_dp + B_delta) + |dp - delta| B_p + cast;  dq: spread of B_dz |key| + B_delta |out| +
///   accumulation
inline AttentionGradientEstimate attention_gradient_estimate(const Ledger& ledger, const AttentionEstimate& e,
                                                             const Estimate& lse, const Estimate& out,
                                                             const Estimate& dout, const Estimate& keys) {
  const Arithmetic& a = ledger.arithmetic;
  const Index heads = dout.rows(), n = keys.rows(), dim = keys.cols();
  const double scale = 1 / std::sqrt(static_cast<double>(dim)), u = a.compute;
  const double* sink = ledger.vector(WeightId::kAttnSink);
  Estimate dp = product(dout, keys.value.transpose(), a);
  if (!keys.exact())
    dp.error += kSpreadOfBudgets * (dout.value.cwiseAbs2() * keys.error.cwiseAbs2().transpose()).cwiseSqrt();
  AttentionGradientEstimate g{Estimate(heads, dim), Estimate(heads, n), Estimate(heads, n), Estimate(1, heads)};
  const Rounding cast = ledger.cast(CastPoint::kLogitCotangent), cast_p = ledger.cast(CastPoint::kProbability);
  Vector<double> delta_error(heads);
  for (Index h = 0; h < heads; ++h) {
    double delta = 0, l1 = 0, l2 = 0, from = 0;
    for (Index c = 0; c < dim; ++c) {
      const double term = dout.value(h, c) * out.value(h, c);
      delta += term;
      l1 += std::abs(term);
      l2 += term * term;
      from += std::pow(dout.error(h, c) * out.value(h, c), 2) + std::pow(dout.value(h, c) * out.error(h, c), 2);
    }
    delta_error[h] = accumulation(u, dim, delta, l1, std::sqrt(l2), 0) + kSpreadOfBudgets * std::sqrt(from);
    const double lse_error = std::isfinite(lse.value(0, h)) ? lse.error(0, h) : 0;
    for (Index j = 0; j < n; ++j) {
      const double p = std::isfinite(lse.value(0, h)) ? std::exp(e.z.value(h, j) - lse.value(0, h)) : 0;
      const double moved = std::min(1.0, e.moved(h, j) + moved_probability(p, lse_error)) + a.tiny;
      const double gap = dp.value(h, j) - delta, dz = p * gap;
      g.p.value(h, j) = p;
      g.p.error(h, j) = moved + kCast * cast_p.u * p + cast_p.tiny;
      g.dz.value(h, j) = scale * dz;
      g.dz.error(h, j) = scale * (p * (dp.error(h, j) + u * (std::abs(dp.value(h, j)) + std::abs(delta))) +
                                  moved * std::abs(gap) + std::abs(dz) * (kCast * cast.u + 3 * u) + cast.tiny);
    }
    const bool weighs = std::isfinite(sink[h]) && std::isfinite(lse.value(0, h));
    const double p_sink = weighs ? std::exp(sink[h] - lse.value(0, h)) : 0;
    g.dsink.value(0, h) = -p_sink * delta;
    // Nothing of the sink's own is rounded, but lse is: as it is known here, or as it was computed.
    g.dsink.error(0, h) =
        p_sink *
        (delta_error[h] + std::abs(delta) * (lse_error + (weighs ? u * (std::abs(sink[h] - lse.value(0, h)) + 3) : 0)));
  }
  g.dq.value.noalias() = g.dz.value * keys.value;
  const Matrix<double> squares = keys.value.cwiseAbs2();
  const Matrix<double> moved = (g.dz.error.cwiseAbs2() * squares).cwiseSqrt();
  const Matrix<double> terms = (g.dz.value.cwiseAbs2() * squares).cwiseSqrt();
  const double factor = std::min(kSpread, std::sqrt(static_cast<double>(n)));
  for (Index h = 0; h < heads; ++h)
    for (Index c = 0; c < dim; ++c) {
      const double order = n <= kFewTerms
                               ? static_cast<double>(n) * a.sum * std::sqrt(static_cast<double>(n)) * terms(h, c)
                               : accumulation(a.sum, n, g.dq.value(h, c), 0, terms(h, c), 0);
      g.dq.error(h, c) = factor * moved(h, c) + scale * delta_error[h] * std::abs(e.out.value(h, c)) + order +
                         static_cast<double>(n) * a.tiny;
    }
  if (!keys.exact()) g.dq.error += kSpreadOfBudgets * (g.dz.value.cwiseAbs2() * keys.error.cwiseAbs2()).cwiseSqrt();
  for (Index h = 0; h < heads; ++h) g.dz.error.row(h) += scale * delta_error[h] * g.p.value.row(h);
  return g;
}

/// Largest logit of each head, and the error it may have: of any logit that may be the largest.
class MaxLogits {
 public:
  explicit MaxLogits(Index heads) : estimate_(1, heads) {
    estimate_.value.setConstant(-std::numeric_limits<double>::infinity());
  }
  void add(const Estimate& z) {
    for (Index h = 0; h < z.rows(); ++h)
      for (Index j = 0; j < z.cols(); ++j) {
        double &top = estimate_.value(0, h), &error = estimate_.error(0, h);
        const bool near = z.value(h, j) + z.error(h, j) >= top - error;
        if (z.value(h, j) > top) {
          error = top + error >= z.value(h, j) - z.error(h, j) ? std::max(error, z.error(h, j)) : z.error(h, j);
          top = z.value(h, j);
        } else if (near) {
          error = std::max(error, z.error(h, j));
        }
      }
  }
  Estimate& estimate() { return estimate_; }

 private:
  Estimate estimate_;
};

}  // namespace plumbline::reference::budget
