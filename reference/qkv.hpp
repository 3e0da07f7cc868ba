#pragma once
#include "reference/context.hpp"
#include "reference/rms_norm.hpp"

// Projections of a token: the query's low-rank path, and the one KV head.
//
//   q_down = hidden . wq_a^T      q_latent = rms(q_down; q_norm)
//   q_up = q_latent . wq_b^T      q = rope(rms(q_up), t), per head, rms without weight over all D channels
//   kv_proj = hidden . wkv^T      kv = rope(rms(kv_proj; kv_norm), t)
namespace plumbline::reference {

/// The query path of one token block, [padded rows, ...] each.
template <typename Scalar>
struct QueryActivations {
  Matrix<Scalar> x;         ///< hidden rows, [rows, h]
  Matrix<Scalar> q_down;    ///< [rows, Rq]
  Matrix<Scalar> q_latent;  ///< [rows, Rq]
  Matrix<Scalar> q_up;      ///< [rows, heads * D]
  Matrix<Scalar> q;         ///< [rows, heads * D]
};

template <typename Policy>
void query_forward(const Context<Policy>& ctx, const TokenBlock& block, QueryActivations<typename Policy::Scalar>& a) {
  using Scalar = typename Policy::Scalar;
  const contract::LayerConfig& c = ctx.config();
  const Index rank = c.q_lora_rank, dim = c.head_dim;
  ctx.gather(ctx.problem.hidden, block, a.x);
  const Index rows = a.x.rows();

  a.q_down.resize(rows, rank);
  project(ctx.policy, DatasetId::forward(StageId::kQDown), all(a.q_down), all(std::as_const(a.x)),
          ctx.weight(WeightId::kWqA));
  ctx.emit(StageId::kQDown, block.physical, all(a.q_down));

  a.q_latent.resize(rows, rank);
  const Scalar* gain = ctx.vector(WeightId::kQNorm);
#pragma omp parallel for schedule(static) if (worth_threads(rows, rank, 4))
  for (Index r = 0; r < rows; ++r) ctx.normalise(a.q_down.row(r).data(), gain, rank, a.q_latent.row(r).data());
  ctx.emit(StageId::kQLatent, block.physical, all(a.q_latent));

  a.q_up.resize(rows, ctx.heads.count * dim);
  const auto wq_b = ctx.weight(WeightId::kWqB);
  project(ctx.policy, DatasetId::forward(StageId::kQUp), all(a.q_up), all(std::as_const(a.q_latent)),
          map(wq_b.data() + ctx.heads.begin * dim * rank, ctx.heads.count * dim, rank));
  ctx.emit(StageId::kQUp, block.physical, all(a.q_up), ctx.heads.begin * dim);

  a.q.resize(rows, a.q_up.cols());
  a.q.bottomRows(rows - block.count()).setZero();
#pragma omp parallel for schedule(static) if (worth_threads(block.count(), ctx.heads.count, dim, 4))
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < ctx.heads.count; ++h) {
      Scalar* q = a.q.row(r).data() + h * dim;
      ctx.normalise(a.q_up.row(r).data() + h * dim, nullptr, dim, q);
      ctx.rotate(q, dim, block.position[r]);
    }
  ctx.emit(StageId::kQ, block.physical, all(a.q), ctx.heads.begin * dim);
}

/// vjp of query_forward. `dq` [rows, heads * D] is overwritten; the contribution to hidden is added to `dx` [rows, h].
///   dq_up = rms_vjp(rope_back(dq))      dwq_b += dq_up^T q_latent      dq_latent = dq_up . wq_b   (partial over heads:
///   B1) dq_down = rms_vjp(dq_latent)        dwq_a += dq_down^T hidden      dhidden += dq_down . wq_a
template <typename Policy>
void query_backward(const Context<Policy>& ctx, const TokenBlock& block,
                    const QueryActivations<typename Policy::Scalar>& a, Matrix<typename Policy::Scalar>& dq,
                    Matrix<typename Policy::Scalar>& dx) {
  using Scalar = typename Policy::Scalar;
  const contract::LayerConfig& c = ctx.config();
  const Index rank = c.q_lora_rank, dim = c.head_dim, rows = a.x.rows();
  ctx.emit_gradient(StageId::kQ, block.physical, all(dq), ctx.heads.begin * dim);

#pragma omp parallel for schedule(static) if (worth_threads(block.count(), ctx.heads.count, dim, 8))
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < ctx.heads.count; ++h) {
      Scalar* d = dq.row(r).data() + h * dim;
      ctx.rope.rotate_back(d, dim, block.position[r]);
      rms_norm_vjp<Scalar>(a.q_up.row(r).data() + h * dim, nullptr, ctx.eps(), dim, d, d, nullptr);
    }
  ctx.emit_gradient(StageId::kQUp, block.physical, all(dq), ctx.heads.begin * dim);
  ctx.add_weight_gradient(WeightId::kWqB, all(std::as_const(dq)), all(a.q_latent), ctx.heads.begin * dim);

  Matrix<Scalar> dlatent(rows, rank);
  const auto wq_b = ctx.weight(WeightId::kWqB);
  project_input_vjp(ctx.policy, DatasetId::gradient(StageId::kQLatent), all(dlatent), all(std::as_const(dq)),
                    map(wq_b.data() + ctx.heads.begin * dim * rank, ctx.heads.count * dim, rank));
  ctx.communicator.all_reduce_sum(contract::Collective::kB1QLatent, dlatent.data(), block.count() * rank);
  ctx.emit_gradient(StageId::kQLatent, block.physical, all(dlatent));

  Scalar* dgain = ctx.taps.weight_gradient(WeightId::kQNorm);
  for (Index r = 0; r < block.count(); ++r) {
    Scalar* d = dlatent.row(r).data();
    rms_norm_vjp(a.q_down.row(r).data(), ctx.vector(WeightId::kQNorm), ctx.eps(), rank, d, d, dgain);
  }
  ctx.emit_gradient(StageId::kQDown, block.physical, all(dlatent));
  ctx.add_weight_gradient(WeightId::kWqA, all(std::as_const(dlatent)), all(a.x));
  ctx.add_hidden_gradient(dx, all(std::as_const(dlatent)), WeightId::kWqA);
}

/// Keys of all real tokens; K and V are the same tensor. [R, D] each, compact rows.
template <typename Scalar>
struct KeyActivations {
  Matrix<Scalar> kv_proj;
  Matrix<Scalar> kv;
};

/// Keys of one block of consecutive compact rows; `x` holds their hidden rows.
template <typename Policy>
void key_forward(const Context<Policy>& ctx, const TokenBlock& block, const Matrix<typename Policy::Scalar>& x,
                 KeyActivations<typename Policy::Scalar>& a) {
  const Index dim = ctx.config().head_dim, first = block.compact.front();
  auto kv_proj = rows_of(a.kv_proj, first, x.rows());
  project(ctx.policy, DatasetId::forward(StageId::kKvProj), kv_proj, all(x), ctx.weight(WeightId::kWkv));
  ctx.emit(StageId::kKvProj, block.physical, kv_proj);
  auto kv = rows_of(a.kv, first, block.count());
#pragma omp parallel for schedule(static) if (worth_threads(block.count(), dim, 4))
  for (Index r = 0; r < block.count(); ++r) {
    ctx.normalise(kv_proj.row(r).data(), ctx.vector(WeightId::kKvNorm), dim, kv.row(r).data());
    ctx.rotate(kv.row(r).data(), dim, block.position[r]);
  }
  ctx.emit(StageId::kKv, block.physical, kv);
}

/// vjp of key_forward for one block, from the cotangent of kv that all queries have left in `dkv` [R, D] (overwritten).
///   dkv_proj = rms_vjp(rope_back(dkv))      dwkv += dkv_proj^T hidden      dhidden += dkv_proj . wkv
template <typename Policy>
void key_backward(const Context<Policy>& ctx, const TokenBlock& block, const Matrix<typename Policy::Scalar>& x,
                  const KeyActivations<typename Policy::Scalar>& a, Matrix<typename Policy::Scalar>& dkv,
                  Matrix<typename Policy::Scalar>& dx) {
  using Scalar = typename Policy::Scalar;
  const Index dim = ctx.config().head_dim, first = block.compact.front();
  auto d = rows_of(dkv, first, x.rows());
  ctx.emit_gradient(StageId::kKv, block.physical, d);
  Scalar* dgain = ctx.taps.weight_gradient(WeightId::kKvNorm);
  for (Index r = 0; r < block.count(); ++r) {
    ctx.rope.rotate_back(d.row(r).data(), dim, block.position[r]);
    rms_norm_vjp(a.kv_proj.row(first + r).data(), ctx.vector(WeightId::kKvNorm), ctx.eps(), dim, d.row(r).data(),
                 d.row(r).data(), dgain);
  }
  ctx.emit_gradient(StageId::kKvProj, block.physical, d);
  const auto dproj = map(std::as_const(d).data(), x.rows(), dim);
  ctx.add_weight_gradient(WeightId::kWkv, dproj, all(x));
  ctx.add_hidden_gradient(dx, dproj, WeightId::kWkv);
}

}  // namespace plumbline::reference
