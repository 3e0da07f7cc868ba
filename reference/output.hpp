#pragma once
#include "reference/context.hpp"

// Output of a query: inverse rotation, then the grouped low-rank projection.
//
//   attn_out_derotated = rope_inverse(attn_out, t)           last P channels of each head
//   o_latent, block j = group_j . wo_a[j]^T                  group j holds heads j*H/G .. (j+1)*H/G - 1, flattened
//   out = o_latent . wo_b^T
namespace plumbline::reference {

/// The output path of one token block. `attn_out` itself is kept: the softmax's vjp needs it before the rotation.
template <typename Scalar>
struct OutputActivations {
  Matrix<Scalar> derotated;  ///< [rows, heads * D]
  Matrix<Scalar> o_latent;   ///< [rows, groups * Ro], this rank's groups
  Matrix<Scalar> out;        ///< [rows, h]
};

/// This rank's part of the grouped projection: its groups, their rows of wo_a and columns of wo_b.
template <typename Policy>
struct OutputShard {
  using In = typename Policy::In;
  Index first_group, groups, group_input, rank;
  In wo_a;  ///< [groups * Ro, H/G * D]
  In wo_b;  ///< [h, groups * Ro]

  explicit OutputShard(const Context<Policy>& ctx)
      : first_group(ctx.heads.begin / ctx.config().heads_per_group()),
        groups(ctx.heads.count / ctx.config().heads_per_group()),
        group_input(ctx.config().heads_per_group() * ctx.config().head_dim),
        rank(ctx.config().o_lora_rank),
        wo_a(map(ctx.vector(WeightId::kWoA) + first_group * rank * group_input, groups * rank, group_input)),
        wo_b(map(ctx.vector(WeightId::kWoB) + first_group * rank, ctx.config().hidden, groups * rank,
                 ctx.config().o_groups * rank)) {}

  In group_weight(Index j) const { return map(wo_a.data() + j * rank * group_input, rank, group_input); }
};

template <typename Policy>
void output_forward(const Context<Policy>& ctx, const TokenBlock& block,
                    const Matrix<typename Policy::Scalar>& attn_out, OutputActivations<typename Policy::Scalar>& a) {
  const Index dim = ctx.config().head_dim, rows = attn_out.rows();
  const OutputShard<Policy> shard(ctx);
  a.derotated = attn_out;
#pragma omp parallel for schedule(static) if (worth_threads(block.count(), ctx.heads.count, ctx.config().rope_dim, 2))
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < ctx.heads.count; ++h)
      ctx.rope.rotate_back(a.derotated.row(r).data() + h * dim, dim, block.position[r]);
  ctx.emit(StageId::kAttnOutDerotated, block.physical, all(a.derotated), ctx.heads.begin * dim);

  a.o_latent.resize(rows, shard.groups * shard.rank);
  for (Index j = 0; j < shard.groups; ++j)
    project(ctx.policy, DatasetId::forward(StageId::kOLatent),
            map(a.o_latent.data() + j * shard.rank, rows, shard.rank, a.o_latent.cols()),
            map(std::as_const(a.derotated).data() + j * shard.group_input, rows, shard.group_input, a.derotated.cols()),
            shard.group_weight(j));
  ctx.emit(StageId::kOLatent, block.physical, all(a.o_latent), shard.first_group * shard.rank);

  a.out.resize(rows, ctx.config().hidden);
  project(ctx.policy, DatasetId::forward(StageId::kOut), all(a.out), all(std::as_const(a.o_latent)), shard.wo_b);
  ctx.communicator.all_reduce_sum(contract::Collective::kF1Out, a.out.data(), block.count() * a.out.cols());
  ctx.emit(StageId::kOut, block.physical, all(a.out));
}

/// Cotangents of the output path. They depend on grad_out and weights alone, so they exist before attention runs.
template <typename Scalar>
struct OutputCotangents {
  Matrix<Scalar> dout;        ///< grad_out rows [rows, h]
  Matrix<Scalar> do_latent;   ///< [rows, groups * Ro]
  Matrix<Scalar> dderotated;  ///< [rows, heads * D]
  Matrix<Scalar> dattn_out;   ///< [rows, heads * D]
};

///   do_latent = dout . wo_b      dderotated, group j = do_latent_j . wo_a[j]      dattn_out = rope(dderotated, t)
template <typename Policy>
void output_cotangents(const Context<Policy>& ctx, const TokenBlock& block,
                       OutputCotangents<typename Policy::Scalar>& d) {
  const Index dim = ctx.config().head_dim;
  const OutputShard<Policy> shard(ctx);
  ctx.gather(ctx.problem.grad_out, block, d.dout);
  const Index rows = d.dout.rows();
  ctx.emit_gradient(StageId::kOut, block.physical, all(d.dout));

  d.do_latent.resize(rows, shard.groups * shard.rank);
  project_input_vjp(ctx.policy, DatasetId::gradient(StageId::kOLatent), all(d.do_latent), all(std::as_const(d.dout)),
                    shard.wo_b);
  ctx.emit_gradient(StageId::kOLatent, block.physical, all(d.do_latent), shard.first_group * shard.rank);

  d.dderotated.resize(rows, ctx.heads.count * dim);
  for (Index j = 0; j < shard.groups; ++j)
    project_input_vjp(ctx.policy, DatasetId::gradient(StageId::kAttnOutDerotated),
                      map(d.dderotated.data() + j * shard.group_input, rows, shard.group_input, d.dderotated.cols()),
                      map(std::as_const(d.do_latent).data() + j * shard.rank, rows, shard.rank, d.do_latent.cols()),
                      shard.group_weight(j));
  ctx.emit_gradient(StageId::kAttnOutDerotated, block.physical, all(d.dderotated), ctx.heads.begin * dim);

  d.dattn_out = d.dderotated;
#pragma omp parallel for schedule(static) if (worth_threads(block.count(), ctx.heads.count, ctx.config().rope_dim, 2))
  for (Index r = 0; r < block.count(); ++r)
    for (Index h = 0; h < ctx.heads.count; ++h)
      ctx.rope.rotate(d.dattn_out.row(r).data() + h * dim, dim, block.position[r]);
  ctx.emit_gradient(StageId::kAttnOut, block.physical, all(d.dattn_out), ctx.heads.begin * dim);
}

/// Weight gradients of the output path: dwo_b += dout^T o_latent, dwo_a[j] += do_latent_j^T group_j.
template <typename Policy>
void output_weight_gradients(const Context<Policy>& ctx, const OutputActivations<typename Policy::Scalar>& a,
                             const OutputCotangents<typename Policy::Scalar>& d) {
  const OutputShard<Policy> shard(ctx);
  const Index rows = a.o_latent.rows();
  if (auto* gradient = ctx.taps.weight_gradient(WeightId::kWoB))
    project_weight_vjp(ctx.policy, DatasetId::gradient(WeightId::kWoB),
                       map(gradient + shard.first_group * shard.rank, d.dout.cols(), a.o_latent.cols(),
                           ctx.config().o_groups * shard.rank),
                       all(d.dout), all(a.o_latent));
  for (Index j = 0; j < shard.groups; ++j)
    ctx.add_weight_gradient(
        WeightId::kWoA, map(d.do_latent.data() + j * shard.rank, rows, shard.rank, d.do_latent.cols()),
        map(a.derotated.data() + j * shard.group_input, rows, shard.group_input, a.derotated.cols()),
        (shard.first_group + j) * shard.rank);
}

}  // namespace plumbline::reference
