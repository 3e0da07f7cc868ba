#pragma once
#include "reference/budget/ledger.hpp"
#include "reference/budget/sum.hpp"

// Budgets of reference/indexer.hpp.
namespace plumbline::reference::budget {

/// What is known of the indexer's queries of a token block.
struct IndexQueryEstimates {
  Estimate q, w;
};

inline IndexQueryEstimates index_query_budgets(Ledger& ledger, const TokenBlock& block, const Estimate& x,
                                               const Estimate& q_latent) {
  const contract::LayerConfig& c = ledger.config();
  const Arithmetic& a = ledger.arithmetic;
  IndexQueryEstimates e;
  e.q = product(q_latent, ledger.weight(WeightId::kIndexerWqB).transpose(), a);
  const Rounding unrotated = ledger.cast(CastPoint::kUnrotated);
  e.q.cast(unrotated);
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < c.index_heads; ++h)
      ledger.rotation(e.q.value.row(r).data() + h * c.index_dim, e.q.error.row(r).data() + h * c.index_dim, c.index_dim,
                      block.position[r], 1);
  e.q.cast(unrotated);
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < c.index_heads; ++h)
      hadamard_estimate(e.q.value.row(r).data() + h * c.index_dim, e.q.error.row(r).data() + h * c.index_dim,
                        c.index_dim, a);
  ledger.settle(DatasetId::forward(StageId::kIndexQ), block.physical, e.q);
  e.w = product(x, ledger.weight(WeightId::kIndexerWeightsProj).transpose(), a);
  e.w.scale(1 / std::sqrt(static_cast<double>(c.index_heads)));
  e.w.error += 2 * a.compute * e.w.value.cwiseAbs();
  ledger.settle(DatasetId::forward(StageId::kIndexW), block.physical, e.w);
  return e;
}

/// A row of an operand as the scores read it: rounded to a narrow format with one scale a row.
inline void cast_operand(const Ledger& ledger, Estimate& rows) {
  const double u = ledger.cast(CastPoint::kIndexOperand).u;
  if (u == 0) return;
  const contract::NumberFormat format = ledger.profile.cast(CastPoint::kIndexOperand);
  for (Index r = 0; r < rows.rows(); ++r) {
    const double largest = rows.value.row(r).cwiseAbs().maxCoeff();
    if (largest == 0) continue;
    const double step = contract::operand_scale(format, largest) * contract::smallest_subnormal(format);
    rows.error.row(r).array() += kCast * (u * rows.value.row(r).array().abs() + 0.5 * step);
  }
}

/// One query's scores and what they are made of: products a = index_q . index_k [heads, entries] with their errors.
struct ScoreEstimate {
  Estimate products;
  Estimate scores;  ///< [1, entries]
};

///   scores: spread over heads of |w| B_a (where a > -B_a) + B_w relu(a) + u_term |w relu(a)| + accumulation over heads
inline ScoreEstimate score_estimate(const Ledger& ledger, const Estimate& q, const Estimate& w, const Estimate& keys) {
  const Arithmetic& a = ledger.arithmetic;
  const Index heads = q.rows(), n = keys.rows();
  const double scale = 1 / std::sqrt(static_cast<double>(q.cols()));
  ScoreEstimate e;
  e.products = product(q, keys.value.transpose(), a);
  if (!keys.exact())
    e.products.error += kSpreadOfBudgets * (q.value.cwiseAbs2() * keys.error.cwiseAbs2().transpose()).cwiseSqrt();
  e.products.cast(ledger.cast(CastPoint::kIndexProduct));
  e.scores = Estimate(1, n);
  const double cast = kCast * ledger.cast(CastPoint::kIndexTerm).u;
  for (Index g = 0; g < n; ++g) {
    double score = 0, l1 = 0, l2 = 0, moved1 = 0, moved2 = 0;
    for (Index h = 0; h < heads; ++h) {
      const double product = e.products.value(h, g), error = e.products.error(h, g);
      const double term = std::abs(w.value(0, h)) * std::max(product, 0.0);
      const double moved = (product > -error ? std::abs(w.value(0, h)) * error : 0) +
                           w.error(0, h) * std::max(product, 0.0) + term * (cast + a.compute);
      score += w.value(0, h) * std::max(product, 0.0);
      l1 += term;
      l2 += term * term;
      moved1 += moved;
      moved2 += moved * moved;
    }
    e.scores.value(0, g) = scale * score;
    e.scores.error(0, g) =
        scale * (spread(heads, moved1, std::sqrt(moved2)) + accumulation(a.sum, heads, score, l1, std::sqrt(l2), 0) +
                 2 * a.compute * std::abs(score)) +
        static_cast<double>(heads) * a.tiny;
  }
  return e;
}

/// What one query's scores' cotangents give.
struct ScoreGradientEstimate {
  Estimate dproducts;  ///< [heads, candidates]: with q makes dindex_k
  Estimate dq;         ///< [heads, Di]
  Estimate dw;         ///< [1, heads]
};

/// `products` [heads, C] and `keys` [C, Di] of the candidates, `dscores` [1, C]. A ReLU whose input may have either
/// sign has two right derivatives: their gap is in the budget.
inline ScoreGradientEstimate score_gradient_estimate(const Ledger& ledger, const Estimate& products, const Estimate& w,
                                                     const Estimate& keys, const Estimate& dscores) {
  const Arithmetic& a = ledger.arithmetic;
  const Index heads = products.rows(), n = products.cols();
  const double scale = 1 / std::sqrt(static_cast<double>(keys.cols())), u = a.compute;
  ScoreGradientEstimate g{Estimate(heads, n), Estimate(heads, keys.cols()), Estimate(1, heads)};
  for (Index h = 0; h < heads; ++h) {
    double dw = 0, l1 = 0, l2 = 0, moved1 = 0, moved2 = 0;
    for (Index k = 0; k < n; ++k) {
      const double product = products.value(h, k), error = products.error(h, k), relu = std::max(product, 0.0);
      const double d = scale * dscores.value(0, k), d_error = scale * dscores.error(0, k) + 2 * u * std::abs(d);
      const double full = d * w.value(0, h);
      g.dproducts.value(h, k) = product > 0 ? full : 0;
      g.dproducts.error(h, k) =
          std::abs(product) <= error ? std::abs(full) + std::abs(w.value(0, h)) * d_error
          : product > 0 ? std::abs(w.value(0, h)) * d_error + std::abs(d) * w.error(0, h) + u * std::abs(full)
                        : 0;
      const double term = d * relu,
                   moved = d_error * relu + (product > -error ? std::abs(d) * error : 0) + u * std::abs(term);
      dw += term;
      l1 += std::abs(term);
      l2 += term * term;
      moved1 += moved;
      moved2 += moved * moved;
    }
    g.dw.value(0, h) = dw;
    g.dw.error(0, h) = spread(n, moved1, std::sqrt(moved2)) + accumulation(u, n, dw, l1, std::sqrt(l2), 0) +
                       static_cast<double>(n) * a.tiny;
  }
  g.dproducts.cast(ledger.cast(CastPoint::kIndexCotangent));
  g.dq = product(g.dproducts, keys.value, a);
  if (!keys.exact())
    g.dq.error += kSpreadOfBudgets * (g.dproducts.value.cwiseAbs2() * keys.error.cwiseAbs2()).cwiseSqrt();
  return g;
}

struct IndexSums {
  Sum wq_b, weights_proj;
};

inline void index_query_gradient_budgets(Ledger& ledger, const TokenBlock& block, const Estimate& x,
                                         const Estimate& q_latent, Estimate dq, Estimate dw, IndexSums& sums) {
  const contract::LayerConfig& c = ledger.config();
  ledger.settle(DatasetId::gradient(StageId::kIndexQ), block.physical, dq);
  ledger.settle(DatasetId::gradient(StageId::kIndexW), block.physical, dw);
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < c.index_heads; ++h) {
      double *value = dq.value.row(r).data() + h * c.index_dim, *error = dq.error.row(r).data() + h * c.index_dim;
      hadamard_estimate(value, error, c.index_dim, ledger.arithmetic);
      ledger.rotation(value, error, c.index_dim, block.position[r], -1);
    }
  // Both are factors of a product of bf16 matrices where the stored gradients are.
  dq.cast(ledger.cast_of_store(DatasetId::gradient(StageId::kIndexQ)));
  dw.scale(1 / std::sqrt(static_cast<double>(c.index_heads)));
  dw.cast(ledger.cast_of_store(DatasetId::gradient(StageId::kIndexW)));
  sums.wq_b.add_outer(dq, q_latent);
  sums.weights_proj.add_outer(dw, x);
}

}  // namespace plumbline::reference::budget
