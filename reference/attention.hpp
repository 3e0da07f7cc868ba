#pragma once
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/context.hpp"
#include "reference/query_tile.hpp"
#include "reference/sink_softmax.hpp"

// Attention of a query over its window and its picked entries; one key row is both key and value, for all heads.
//
//   z = D^(-1/2) q[i,h] . key      attn_lse[i,h] = log(exp(attn_sink[h]) + sum_keys exp(z))
//   attn_out[i,h] = sum_keys exp(z - attn_lse) * key      max_logits[h] = largest z over all queries
//
// Backward, with p = exp(z - attn_lse), dp = dO . key, delta[h] = dO[h] . attn_out[h], dz = p (dp - delta):
//   dq = D^(-1/2) sum_keys dz key      dkey = sum_h (D^(-1/2) dz[h] q[h] + p[h] dO[h])      dsink[h] = -exp(sink - lse)
//   delta
namespace plumbline::reference {

/// The key rows that attention reads, compact, and their cotangents.
template <typename Scalar>
struct AttentionKeys {
  const Matrix<Scalar>& kv;             ///< [R, D]
  const Matrix<Scalar>& compressed_kv;  ///< [E, D]
};

namespace detail {
/// Calls body(keys, first column) for the window's rows and, if there are any, the picked entries' rows.
template <typename Scalar, typename Body>
void for_each_key_block(const AttentionKeys<Scalar>& keys, const QueryKeys& seen, Matrix<Scalar>& scratch, Body body) {
  body(rows_of(keys.kv, seen.window_first, seen.window_count), Index{0});
  if (seen.picked() > 0)
    body(picked_rows(keys.compressed_kv, seen.entry_first, seen.picks, scratch), seen.window_count);
}
}  // namespace detail

/// Forward of a tile: leaves logits and lse in the tile, writes attn_out rows of the token block ([rows, heads * D])
/// and raises `max_logits` [heads].
template <typename Policy>
void attention_forward(const Context<Policy>& ctx, const Matrix<typename Policy::Scalar>& q,
                       const AttentionKeys<typename Policy::Scalar>& keys, QueryTile<typename Policy::Scalar>& tile,
                       Matrix<typename Policy::Scalar>& attn_out, Vector<typename Policy::Scalar>& max_logits) {
  using Scalar = typename Policy::Scalar;
  using std::sqrt;
  const Index heads = ctx.heads.count, dim = ctx.config().head_dim;
  const Scalar scale = Scalar(1) / sqrt(Scalar(dim));
  const Scalar* sink = ctx.vector(WeightId::kAttnSink) + ctx.heads.begin;
  tile.lse.resize(tile.count, heads);
  tile.logits.resize(tile.count, heads * tile.key_stride);
#pragma omp parallel if (worth_threads(tile.count, tile.key_stride, heads, dim))
  {
    Matrix<Scalar> scratch, p;
#pragma omp for schedule(dynamic)
    for (Index i = 0; i < tile.count; ++i) {
      const Index row = tile.first + i;
      auto z = tile.logits_of(i);
      const auto query = map(q.data() + row * q.cols(), heads, dim);
      detail::for_each_key_block(keys, tile.keys[i], scratch, [&](ConstMatrixMap<Scalar> block, Index column) {
        ctx.policy.product_nt(DatasetId::forward(StageId::kAttnOut),
                              map(z.data() + column, heads, block.rows(), z.outerStride()), query, block, false);
      });
      z *= scale;
      p.resize(heads, z.cols());
      for (Index h = 0; h < heads; ++h) {
        ctx.policy.cast(CastPoint::kLogit, z.row(h).data(), z.cols());
        tile.lse(i, h) = sink_log_sum_exp(z.row(h).data(), z.cols(), sink[h]);
        sink_softmax(z.row(h).data(), z.cols(), tile.lse(i, h), p.row(h).data());
        ctx.policy.cast(CastPoint::kProbability, p.row(h).data(), p.cols());
      }
      auto out = map(attn_out.data() + row * attn_out.cols(), heads, dim);
      detail::for_each_key_block(keys, tile.keys[i], scratch, [&](ConstMatrixMap<Scalar> block, Index column) {
        ctx.policy.product_nn(DatasetId::forward(StageId::kAttnOut), out,
                              map(std::as_const(p).data() + column, heads, block.rows(), p.cols()), block, column > 0);
      });
    }
  }
  for (Index i = 0; i < tile.count; ++i)
    for (Index h = 0; h < heads; ++h) max_logits[h] = std::max(max_logits[h], tile.logits_of(i).row(h).maxCoeff());
  ctx.emit(StageId::kAttnLse, tile.rows, all(tile.lse), ctx.heads.begin);
  ctx.emit(StageId::kAttnOut, tile.rows, rows_of(attn_out, tile.first, tile.count), ctx.heads.begin * dim);
}

/// vjp of a tile with respect to q and the sink. Turns tile.logits into p and fills tile.dlogits (dz * D^(-1/2)) and
/// tile.dsink; writes dq rows of the token block.
template <typename Policy>
void attention_backward(const Context<Policy>& ctx, const Matrix<typename Policy::Scalar>& attn_out,
                        const Matrix<typename Policy::Scalar>& dattn_out,
                        const AttentionKeys<typename Policy::Scalar>& keys, QueryTile<typename Policy::Scalar>& tile,
                        Matrix<typename Policy::Scalar>& dq) {
  using Scalar = typename Policy::Scalar;
  using std::sqrt;
  const Index heads = ctx.heads.count, dim = ctx.config().head_dim;
  const Scalar scale = Scalar(1) / sqrt(Scalar(dim));
  const Scalar* sink = ctx.vector(WeightId::kAttnSink) + ctx.heads.begin;
  tile.dlogits.resize(tile.count, heads * tile.key_stride);
  tile.dsink.resize(tile.count, heads);
#pragma omp parallel if (worth_threads(tile.count, tile.key_stride, heads, dim))
  {
    Matrix<Scalar> scratch;
#pragma omp for schedule(dynamic)
    for (Index i = 0; i < tile.count; ++i) {
      const Index row = tile.first + i;
      auto p = tile.logits_of(i);
      auto dz = tile.dlogits_of(i);
      const Scalar* out = attn_out.data() + row * attn_out.cols();
      const auto dout = map(dattn_out.data() + row * dattn_out.cols(), heads, dim);
      detail::for_each_key_block(keys, tile.keys[i], scratch, [&](ConstMatrixMap<Scalar> block, Index column) {
        ctx.policy.product_nt(DatasetId::gradient(StageId::kQ),
                              map(dz.data() + column, heads, block.rows(), dz.outerStride()), dout, block, false);
      });
      for (Index h = 0; h < heads; ++h) {
        const Scalar delta = dot(out + h * dim, dout.row(h).data(), dim);
        sink_softmax(p.row(h).data(), p.cols(), tile.lse(i, h), p.row(h).data());
        sink_softmax_vjp(p.row(h).data(), p.cols(), dz.row(h).data(), delta, dz.row(h).data());
        tile.dsink(i, h) = sink_vjp(sink[h], tile.lse(i, h), delta);
        ctx.policy.cast(CastPoint::kProbability, p.row(h).data(), p.cols());
        ctx.policy.cast(CastPoint::kLogitCotangent, dz.row(h).data(), dz.cols());
      }
      dz *= scale;
      const auto query_cotangent = map(dq.data() + row * dq.cols(), heads, dim);
      detail::for_each_key_block(keys, tile.keys[i], scratch, [&](ConstMatrixMap<Scalar> block, Index column) {
        ctx.policy.product_nn(DatasetId::gradient(StageId::kQ), query_cotangent,
                              map(std::as_const(dz).data() + column, heads, block.rows(), dz.outerStride()), block,
                              column > 0);
      });
    }
  }
}

/// Channels of the keys' cotangent that one thread owns.
inline constexpr Index kKeyChannelTile = 128;

/// vjp of a tile with respect to its keys, after attention_backward:
///   dkey += sum_h (dz[h] D^(-1/2) q[h] + p[h] dO[h])
/// Queries share keys, so threads split the channels; each adds up the queries in order, which fixes the sum's bits.
template <typename Policy>
void attention_key_backward(const Context<Policy>& ctx, const Matrix<typename Policy::Scalar>& q,
                            const Matrix<typename Policy::Scalar>& dattn_out, QueryTile<typename Policy::Scalar>& tile,
                            Matrix<typename Policy::Scalar>& dkv, Matrix<typename Policy::Scalar>& dcompressed_kv) {
  using Scalar = typename Policy::Scalar;
  const Index heads = ctx.heads.count, dim = ctx.config().head_dim;
  detail::for_each_tile(
      dim, kKeyChannelTile, worth_threads(tile.count, tile.key_stride, heads, dim), [&](Index channel, Index channels) {
        Matrix<Scalar> scattered;
        for (Index i = 0; i < tile.count; ++i) {
          const QueryKeys& seen = tile.keys[i];
          const Index row = tile.first + i;
          const auto query = map(q.data() + row * q.cols() + channel, heads, channels, dim);
          const auto dout = map(dattn_out.data() + row * dattn_out.cols() + channel, heads, channels, dim);
          const auto p = tile.logits_of(i), dz = tile.dlogits_of(i);
          const auto add = [&](DatasetId id, MatrixMap<Scalar> dkey, Index column, bool accumulate) {
            ctx.policy.product_tn(id, dkey,
                                  map(std::as_const(dz).data() + column, heads, dkey.rows(), dz.outerStride()), query,
                                  accumulate);
            ctx.policy.product_tn(id, dkey, map(std::as_const(p).data() + column, heads, dkey.rows(), p.outerStride()),
                                  dout, true);
          };
          add(DatasetId::gradient(StageId::kKv),
              map(dkv.data() + seen.window_first * dim + channel, seen.window_count, channels, dim), 0, true);
          if (seen.picked() == 0) continue;
          const DatasetId compressed = DatasetId::gradient(StageId::kCompressedKv);
          Scalar* entries = dcompressed_kv.data() + seen.entry_first * dim + channel;
          if (seen.picks_are_contiguous()) {
            add(compressed, map(entries + seen.picks.front() * dim, seen.picked(), channels, dim), seen.window_count,
                true);
          } else {
            scattered.resize(seen.picked(), channels);
            add(compressed, all(scattered), seen.window_count, false);
            for (Index k = 0; k < seen.picked(); ++k)
              map(entries + seen.picks[k] * dim, 1, channels) += scattered.row(k);
          }
        }
      });
}

}  // namespace plumbline::reference
