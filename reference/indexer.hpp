#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "reference/context.hpp"
#include "reference/hadamard.hpp"
#include "reference/query_tile.hpp"

// The lightning indexer: which compressed entries a query attends to. Its inputs, hidden and q_latent, are detached.
//
//   index_q = hadamard(rope(q_latent . indexer.wq_b^T, t))      index_w = (hidden . indexer.weights_proj^T) / sqrt(Hi)
//   index_scores[i,g] = Di^(-1/2) * sum_h index_w[i,h] * relu(index_q[i,h] . index_k[g])
//   topk[i] = the K visible entries of highest score; -0 = +0, ties to the smaller index
namespace plumbline::reference {

/// The indexer's queries of one token block.
template <typename Scalar>
struct IndexQueries {
  Matrix<Scalar> q;   ///< [rows, Hi * Di]
  Matrix<Scalar> w;   ///< [rows, Hi]
  Matrix<Scalar> dq;  ///< cotangents, filled by index_scores_vjp
  Matrix<Scalar> dw;
};

template <typename Policy>
void index_query_forward(const Context<Policy>& ctx, const TokenBlock& block, const Matrix<typename Policy::Scalar>& x,
                         const Matrix<typename Policy::Scalar>& q_latent, IndexQueries<typename Policy::Scalar>& a) {
  using Scalar = typename Policy::Scalar;
  using std::sqrt;
  const Index heads = ctx.config().index_heads, dim = ctx.config().index_dim, rows = x.rows();
  a.q.resize(rows, heads * dim);
  project(ctx.policy, DatasetId::forward(StageId::kIndexQ), all(a.q), all(q_latent), ctx.weight(WeightId::kIndexerWqB));
#pragma omp parallel for schedule(static) if (worth_threads(block.count(), heads, dim, 8))
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < heads; ++h) {
      Scalar* q = a.q.row(r).data() + h * dim;
      ctx.rotate(q, dim, block.position[r]);
      ctx.policy.cast(CastPoint::kUnrotated, q, dim);
      hadamard(q, dim);
    }
  ctx.emit(StageId::kIndexQ, block.physical, all(a.q));
  for (Index i = 0; i < block.count() * heads; ++i)
    ctx.policy.cast(CastPoint::kIndexOperand, a.q.data() + i * dim, dim);

  a.w.resize(rows, heads);
  project(ctx.policy, DatasetId::forward(StageId::kIndexW), all(a.w), all(x),
          ctx.weight(WeightId::kIndexerWeightsProj));
  a.w /= sqrt(Scalar(heads));
  ctx.emit(StageId::kIndexW, block.physical, all(a.w));
}

/// vjp of index_query_forward: only the indexer's own weights receive gradient.
template <typename Policy>
void index_query_backward(const Context<Policy>& ctx, const TokenBlock& block, const Matrix<typename Policy::Scalar>& x,
                          const Matrix<typename Policy::Scalar>& q_latent, IndexQueries<typename Policy::Scalar>& a) {
  using Scalar = typename Policy::Scalar;
  using std::sqrt;
  const Index heads = ctx.config().index_heads, dim = ctx.config().index_dim;
  ctx.emit_gradient(StageId::kIndexQ, block.physical, all(a.dq));
  ctx.emit_gradient(StageId::kIndexW, block.physical, all(a.dw));
#pragma omp parallel for schedule(static) if (worth_threads(block.count(), heads, dim, 8))
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < heads; ++h) {
      Scalar* d = a.dq.row(r).data() + h * dim;
      hadamard(d, dim);
      ctx.rope.rotate_back(d, dim, block.position[r]);
    }
  a.dw /= sqrt(Scalar(heads));
  ctx.add_weight_gradient(WeightId::kIndexerWqB, all(std::as_const(a.dq)), all(q_latent));
  ctx.add_weight_gradient(WeightId::kIndexerWeightsProj, all(std::as_const(a.dw)), all(x));
}

/// Scores of a tile's queries against the visible entries of their segment, -inf elsewhere.
template <typename Policy>
void index_scores(const Context<Policy>& ctx, const IndexQueries<typename Policy::Scalar>& a,
                  const Matrix<typename Policy::Scalar>& index_k, QueryTile<typename Policy::Scalar>& tile) {
  using Scalar = typename Policy::Scalar;
  using std::sqrt;
  const Index heads = ctx.config().index_heads, dim = ctx.config().index_dim;
  const Scalar scale = Scalar(1) / sqrt(Scalar(dim));
  tile.scores.setConstant(tile.count, ctx.plan.most_entries, -std::numeric_limits<Scalar>::infinity());
#pragma omp parallel if (worth_threads(tile.count, heads, dim, ctx.plan.most_entries))
  {
    Matrix<Scalar> products;
#pragma omp for schedule(dynamic)
    for (Index i = 0; i < tile.count; ++i) {
      const QueryKeys& keys = tile.keys[i];
      if (keys.visible == 0) continue;
      const Scalar* q = a.q.data() + (tile.first + i) * a.q.cols();
      const Scalar* w = a.w.data() + (tile.first + i) * heads;
      products.resize(heads, keys.visible);
      ctx.policy.product_nt(DatasetId::forward(StageId::kIndexScores), all(products), map(q, heads, dim),
                            rows_of(index_k, keys.entry_first, keys.visible), false);
      ctx.policy.cast(CastPoint::kIndexProduct, products.data(), products.size());
      for (Index g = 0; g < keys.visible; ++g) {
        Scalar score = 0;
        for (Index h = 0; h < heads; ++h)
          score += ctx.policy.cast(CastPoint::kIndexTerm, w[h] * std::max(products(h, g), Scalar(0)));
        tile.scores(i, g) = scale * score;
      }
    }
  }
  ctx.emit(StageId::kIndexScores, tile.rows, all(tile.scores));
}

/// The `k` highest of `scores[0..visible)`, ascending by index. Scores compare as reals (-0 = +0), ties go to the
/// smaller index; NaN, which only overflow can make, loses against everything.
template <typename Scalar>
std::vector<Index> select_topk(const Scalar* scores, Index visible, Index k) {
  std::vector<Index> order(static_cast<std::size_t>(visible));
  std::iota(order.begin(), order.end(), Index{0});
  if (visible <= k) return order;
  const auto key = [&](Index g) {
    return std::isnan(scores[g]) ? -std::numeric_limits<Scalar>::infinity() : scores[g];
  };
  std::nth_element(order.begin(), order.begin() + k, order.end(),
                   [&](Index a, Index b) { return key(a) != key(b) ? key(a) > key(b) : a < b; });
  order.resize(static_cast<std::size_t>(k));
  std::sort(order.begin(), order.end());
  return order;
}

/// Fills the tile's picks: by score where there is an indexer, else every visible entry.
template <typename Policy>
void select_entries(const Context<Policy>& ctx, QueryTile<typename Policy::Scalar>& tile) {
  using Scalar = typename Policy::Scalar;
  const contract::LayerConfig& c = ctx.config();
  for (Index i = 0; i < tile.count; ++i) {
    QueryKeys& keys = tile.keys[i];
    if (c.indexer) {
      keys.picks = select_topk(tile.scores.row(i).data(), keys.visible, c.index_topk);
      ctx.policy.on_selection(tile.rows[i], keys.picks);
    } else {
      keys.picks.resize(static_cast<std::size_t>(keys.visible));
      std::iota(keys.picks.begin(), keys.picks.end(), Index{0});
    }
  }
  if (!c.indexer || !ctx.taps.wants(DatasetId::forward(StageId::kTopk))) return;
  for (Index i = 0; i < tile.count; ++i) {
    Matrix<Scalar> picks(1, tile.keys[i].picked());
    for (Index k = 0; k < tile.keys[i].picked(); ++k) picks(0, k) = Scalar(tile.keys[i].picks[k]);
    ctx.taps.store(DatasetId::forward(StageId::kTopk), {tile.rows[i]}, all(std::as_const(picks)));
  }
}

/// vjp of index_scores from tile.dscores, over each query's candidates:
///   da[h,g] = Di^(-1/2) * dscores[g] * index_w[h] * [a > 0]      dindex_w[h] = Di^(-1/2) * sum_g dscores[g]
///   relu(a[h,g]) dindex_q[h] = sum_g da[h,g] index_k[g]                       dindex_k[g] += sum_h da[h,g] index_q[h]
/// ReLU'(0) = 0. `dindex_k` [E, Di] collects over all queries, in their order.
template <typename Policy>
void index_scores_vjp(const Context<Policy>& ctx, IndexQueries<typename Policy::Scalar>& a,
                      const Matrix<typename Policy::Scalar>& index_k, const std::vector<std::vector<Index>>& candidates,
                      QueryTile<typename Policy::Scalar>& tile, Matrix<typename Policy::Scalar>& dindex_k) {
  using Scalar = typename Policy::Scalar;
  using std::sqrt;
  const Index heads = ctx.config().index_heads, dim = ctx.config().index_dim;
  const Scalar scale = Scalar(1) / sqrt(Scalar(dim));
  tile.drelu.resize(tile.count, heads * tile.candidate_stride);
  const auto drelu_of = [&](Index i) {
    return map(tile.drelu.data() + i * tile.drelu.cols(), heads, static_cast<Index>(candidates[i].size()),
               tile.candidate_stride);
  };
#pragma omp parallel if (worth_threads(tile.count, heads, dim, tile.candidate_stride))
  {
    Matrix<Scalar> scratch;
#pragma omp for schedule(dynamic)
    for (Index i = 0; i < tile.count; ++i) {
      if (candidates[i].empty()) continue;
      const Index row = tile.first + i;
      const auto keys = picked_rows(index_k, tile.keys[i].entry_first, candidates[i], scratch);
      const auto q = map(std::as_const(a.q).data() + row * a.q.cols(), heads, dim);
      auto d = drelu_of(i);
      ctx.policy.product_nt(DatasetId::forward(StageId::kIndexScores), d, q, keys, false);
      for (Index h = 0; h < heads; ++h) {
        const Scalar w = a.w(row, h);
        Scalar dw = 0;
        for (Index g = 0; g < d.cols(); ++g) {
          const Scalar product = d(h, g), dscore = scale * tile.dscores(i, candidates[i][g]);
          dw += dscore * std::max(product, Scalar(0));
          d(h, g) = product > 0 ? dscore * w : Scalar(0);
        }
        a.dw(row, h) = dw;
        ctx.policy.cast(CastPoint::kIndexCotangent, d.row(h).data(), d.cols());
      }
      ctx.policy.product_nn(DatasetId::gradient(StageId::kIndexQ), map(a.dq.data() + row * a.dq.cols(), heads, dim),
                            map(std::as_const(d).data(), heads, d.cols(), d.outerStride()), keys, false);
    }
  }
  // Queries share keys: threads split the channels, and each adds up the queries in order.
  detail::for_each_tile(
      dim, Index{64}, worth_threads(tile.count, heads, dim, tile.candidate_stride), [&](Index channel, Index channels) {
        Matrix<Scalar> sum;
        for (Index i = 0; i < tile.count; ++i) {
          const Index n = static_cast<Index>(candidates[i].size());
          if (n == 0) continue;
          sum.resize(n, channels);
          const auto d = drelu_of(i);
          ctx.policy.product_tn(
              DatasetId::gradient(StageId::kIndexK), all(sum), map(std::as_const(d).data(), heads, n, d.outerStride()),
              map(std::as_const(a.q).data() + (tile.first + i) * a.q.cols() + channel, heads, channels, dim), false);
          for (Index g = 0; g < n; ++g)
            map(dindex_k.data() + (tile.keys[i].entry_first + candidates[i][g]) * dim + channel, 1, channels) +=
                sum.row(g);
        }
      });
}

}  // namespace plumbline::reference
