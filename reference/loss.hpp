#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "reference/attention.hpp"
#include "reference/context.hpp"
#include "reference/query_tile.hpp"

// The indexer's loss: how far its softmax is from the attention's own shares of the candidates C, which are the picks
// (sparse_loss) or all visible entries.
//
//   p[h,g] = exp(z[h,g] - L[h]),  full: L = log(exp(sink) + sum_window exp(z) + sum_C exp(z));  compressed_only: L =
//   log sum_C exp(z) teacher[g] = sum_h p[h,g] / sum_{g in C} sum_h p[h,g]       over ALL heads (collective F2) predict
//   = softmax over C of index_scores kl_rows[i] = sum_C teacher (ln teacher - ln predict)        indexer_loss =
//   loss_coeff * sum_i kl_rows[i] / (N or 1) d index_scores = loss_scale * loss_coeff * (predict - teacher) / (N or 1)
//   on C, exactly; the teacher is detached
namespace plumbline::reference {

/// Derivative of the objective with respect to one kl_rows: loss_scale * loss_coeff / (per_token_loss ? 1 : max(N, 1)).
template <typename Policy>
typename Policy::Scalar loss_row_weight(const Context<Policy>& ctx) {
  using Scalar = typename Policy::Scalar;
  const contract::LayerConfig& c = ctx.config();
  const Scalar divisor = c.per_token_loss ? Scalar(1) : Scalar(std::max<Index>(ctx.plan.valid_rows, 1));
  return Scalar(c.loss_coeff) / divisor;
}

/// The loss's candidates of each query of a tile, ascending.
template <typename Policy>
std::vector<std::vector<Index>> loss_candidates(const Context<Policy>& ctx,
                                                const QueryTile<typename Policy::Scalar>& tile) {
  std::vector<std::vector<Index>> candidates(static_cast<std::size_t>(tile.count));
  for (Index i = 0; i < tile.count; ++i) {
    if (ctx.config().sparse_loss) {
      candidates[i] = tile.keys[i].picks;
    } else {
      candidates[i].resize(static_cast<std::size_t>(tile.keys[i].visible));
      std::iota(candidates[i].begin(), candidates[i].end(), Index{0});
    }
  }
  return candidates;
}

namespace detail {

/// Logits z of one query's candidates, [heads, candidates], and each head's L as its two parts.
template <typename Policy>
void candidate_logits(const Context<Policy>& ctx, const Matrix<typename Policy::Scalar>& q,
                      const AttentionKeys<typename Policy::Scalar>& keys, QueryTile<typename Policy::Scalar>& tile,
                      Index i, const std::vector<Index>& candidates, MatrixMap<typename Policy::Scalar> logits,
                      LogSumExp<typename Policy::Scalar>* totals) {
  using Scalar = typename Policy::Scalar;
  using std::sqrt;
  const Index heads = ctx.heads.count, dim = ctx.config().head_dim, n = static_cast<Index>(candidates.size());
  const QueryKeys& seen = tile.keys[i];
  const auto z = tile.logits_of(i);
  const Scalar* sink = ctx.vector(WeightId::kAttnSink) + ctx.heads.begin;
  if (ctx.config().sparse_loss) {
    logits = z.rightCols(n);
  } else {
    const auto query = map(q.data() + (tile.first + i) * q.cols(), heads, dim);
    ctx.policy.product_nt(DatasetId::forward(StageId::kTeacher), logits, query,
                          rows_of(keys.compressed_kv, seen.entry_first, n), false);
    logits *= Scalar(1) / sqrt(Scalar(dim));
  }
  std::vector<Scalar> all_logits(static_cast<std::size_t>(seen.window_count + n));
  for (Index h = 0; h < heads; ++h) {
    const Scalar* row = logits.row(h).data();
    if (ctx.config().teacher == contract::Teacher::kCompressedOnly) {
      totals[h] = split_log_sum_exp(row, n, -std::numeric_limits<Scalar>::infinity());
    } else {
      std::copy_n(z.row(h).data(), seen.window_count, all_logits.begin());
      std::copy_n(row, n, all_logits.begin() + seen.window_count);
      totals[h] = split_log_sum_exp(all_logits.data(), seen.window_count + n, sink[h]);
    }
  }
}

}  // namespace detail

/// Teacher, prediction, divergence of a tile, and the cotangent of its scores. Adds the tile's kl_rows to `kl_sum`.
/// Runs after attention_forward, while tile.logits still holds z.
template <typename Policy>
void indexer_loss(const Context<Policy>& ctx, const Matrix<typename Policy::Scalar>& q,
                  const AttentionKeys<typename Policy::Scalar>& keys, const std::vector<std::vector<Index>>& candidates,
                  QueryTile<typename Policy::Scalar>& tile, typename Policy::Scalar& kl_sum) {
  using Scalar = typename Policy::Scalar;
  using std::exp, std::log;
  const Index heads = ctx.heads.count;
  const Scalar none = -std::numeric_limits<Scalar>::infinity();
  tile.candidate_logits.resize(tile.count, heads * tile.candidate_stride);
  const auto logits_of = [&](Index i) {
    return map(tile.candidate_logits.data() + i * tile.candidate_logits.cols(), heads,
               static_cast<Index>(candidates[i].size()), tile.candidate_stride);
  };
  std::vector<LogSumExp<Scalar>> totals(static_cast<std::size_t>(tile.count * heads));

  // All heads' shares may underflow although their ratios are well defined: divide by the row's largest, exp(shift).
  Vector<Scalar> shift = Vector<Scalar>::Constant(tile.count, none);
#pragma omp parallel for schedule(dynamic) if (worth_threads(tile.count, heads, tile.candidate_stride, 16))
  for (Index i = 0; i < tile.count; ++i) {
    if (candidates[i].empty()) continue;
    LogSumExp<Scalar>* total = totals.data() + i * heads;
    detail::candidate_logits(ctx, q, keys, tile, i, candidates[i], logits_of(i), total);
    for (Index h = 0; h < heads; ++h) shift[i] = std::max(shift[i], logits_of(i).row(h).maxCoeff() - total[h].value());
  }
  ctx.communicator.all_reduce_max(contract::Collective::kF2aTeacherShift, shift.data(), tile.count);

  tile.teacher.setZero(tile.count, ctx.plan.most_entries);
#pragma omp parallel for schedule(dynamic) if (worth_threads(tile.count, heads, tile.candidate_stride, 16))
  for (Index i = 0; i < tile.count; ++i) {
    if (shift[i] == none) continue;  // no candidate, or every head's sink is +inf: the teacher has no mass
    const auto z = logits_of(i);
    for (Index h = 0; h < heads; ++h) {
      // top and shift may both be huge and nearly cancel (a sink far above every logit): their sum is taken first.
      const LogSumExp<Scalar>& total = totals[i * heads + h];
      const Scalar offset = total.top + shift[i];
      for (Index g = 0; g < z.cols(); ++g) tile.teacher(i, candidates[i][g]) += exp((z(h, g) - offset) - total.rest);
    }
  }
  ctx.communicator.all_reduce_sum(contract::Collective::kF2bTeacherSum, tile.teacher.data(), tile.teacher.size());
  for (Index i = 0; i < tile.count; ++i) {
    const Scalar mass = sum(tile.teacher.row(i).data(), tile.teacher.cols());
    if (mass > 0) tile.teacher.row(i) /= mass;
  }
  ctx.emit(StageId::kTeacher, tile.rows, all(tile.teacher));

  tile.predict.setZero(tile.count, ctx.plan.most_entries);
  tile.dscores.setZero(tile.count, ctx.plan.most_entries);
  tile.kl.setZero(tile.count, 1);
  const Scalar weight = loss_row_weight(ctx) * Scalar(ctx.config().loss_scale);
#pragma omp parallel if (worth_threads(tile.count, tile.candidate_stride, 32))
  {
    std::vector<Scalar> scores;
#pragma omp for schedule(dynamic)
    for (Index i = 0; i < tile.count; ++i) {
      scores.clear();
      for (const Index g : candidates[i]) scores.push_back(tile.scores(i, g));
      const Scalar log_total = sink_log_sum_exp(scores.data(), static_cast<Index>(scores.size()), none);
      for (std::size_t k = 0; k < scores.size(); ++k) {
        const Index g = candidates[i][k];
        const Scalar t = tile.teacher(i, g), log_predict = scores[k] - log_total;
        tile.predict(i, g) = exp(log_predict);
        if (shift[i] == none) continue;
        if (t > 0) tile.kl(i, 0) += t * (log(t) - log_predict);
        tile.dscores(i, g) = weight * (tile.predict(i, g) - t);
      }
    }
  }
  ctx.emit(StageId::kPredict, tile.rows, all(tile.predict));
  ctx.emit(StageId::kKlRows, tile.rows, all(tile.kl));
  for (Index i = 0; i < tile.count; ++i) kl_sum += tile.kl(i, 0);
}

}  // namespace plumbline::reference
