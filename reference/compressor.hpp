#pragma once
#include <limits>

#include "reference/context.hpp"
#include "reference/hadamard.hpp"
#include "reference/pooling.hpp"
#include "reference/rms_norm.hpp"

// The compressor: `ratio` tokens become one entry, by a softmax over the group's slots, channel by channel.
//
//   value = hidden . wkv^T, logit = hidden . wgate^T      [tokens, coff * width]; ape is added to logit by slot
//   pooled[g,c] = sum_slot softmax_slot(logit + ape)[slot,c] * value[slot,c]
//   key[g] = rope(rms(pooled[g]; norm), g * ratio), for the indexer followed by the Hadamard transform
//
// Without overlap group g pools its own `ratio` slots. With overlap it pools the previous group's slots, channels
// [0, width) of the projections, then its own, channels [width, 2 width); a segment's first group has no predecessor.
// Trailing tokens that fill no group are not compressed.
namespace plumbline::reference {

/// Which tensors a compressor works with: the layer's own, or the indexer's.
struct CompressorSpec {
  WeightId wkv, wgate, ape, norm;
  StageId pooled, key;
  contract::Collective gather;  ///< of `key`, when ranks share the tokens
  contract::Collective reduce;  ///< of its cotangent
  bool hadamard;                ///< of the finished key
  bool hidden_attached;         ///< whether hidden receives gradient (the indexer's input is detached)
};

inline constexpr CompressorSpec kMainCompressor{WeightId::kCompressorWkv,
                                                WeightId::kCompressorWgate,
                                                WeightId::kCompressorApe,
                                                WeightId::kCompressorNorm,
                                                StageId::kCompressedPooled,
                                                StageId::kCompressedKv,
                                                contract::Collective::kCCompressedKv,
                                                contract::Collective::kCDCompressedKv,
                                                false,
                                                true};
inline constexpr CompressorSpec kIndexCompressor{WeightId::kIndexerCompressorWkv,
                                                 WeightId::kIndexerCompressorWgate,
                                                 WeightId::kIndexerCompressorApe,
                                                 WeightId::kIndexerCompressorNorm,
                                                 StageId::kIndexPooled,
                                                 StageId::kIndexK,
                                                 contract::Collective::kCIndexK,
                                                 contract::Collective::kCDIndexK,
                                                 true,
                                                 false};

/// One compressor over a batch. Compact token rows R, compact entries E; it pools the entries that the run owns, and
/// gathers the others' keys.
template <typename Policy>
class Compressor {
 public:
  using Scalar = typename Policy::Scalar;

  Compressor(const Context<Policy>& ctx, const CompressorSpec& spec, Index width)
      : ctx_(ctx), spec_(spec), width_(width), channels_(ctx.config().coff() * width) {
    const Index rows = round_up_rows(ctx.plan.tokens());
    value_.resize(rows, channels_);
    logit_.resize(rows, channels_);
    pooled_.resize(ctx.plan.entries(), width);
    // Poisoned: an entry that its owner never sent must not look right because freed memory happened to hold it.
    key.setConstant(ctx.plan.entries(), width, std::numeric_limits<Scalar>::quiet_NaN());
  }

  Matrix<Scalar> key;  ///< [E, width], what queries see

  /// Projections of one block of consecutive compact rows; `x` holds their hidden rows.
  void project_tokens(const TokenBlock& block, const Matrix<Scalar>& x) {
    const Index first = block.compact.front();
    project(ctx_.policy, DatasetId::forward(spec_.pooled), rows_of(value_, first, x.rows()), all(x),
            ctx_.weight(spec_.wkv));
    project(ctx_.policy, DatasetId::forward(spec_.pooled), rows_of(logit_, first, x.rows()), all(x),
            ctx_.weight(spec_.wgate));
    for (Matrix<Scalar>* m : {&value_, &logit_})
      ctx_.policy.cast(CastPoint::kPoolProjection, m->data() + first * channels_, x.rows() * channels_);
  }

  /// Pools, normalises and rotates the entries, after all tokens are projected.
  void finish() {
    const Index begin = ctx_.plan.own_entry_begin, end = ctx_.plan.own_entry_end;
    const std::vector<Index> rows = ctx_.plan.own_entry_rows();
#pragma omp parallel if (worth_threads(end - begin, ctx_.config().ratio, channels_, 16))
    {
      std::vector<PoolSlot<Scalar>> slots;
      Matrix<Scalar> weight;
#pragma omp for schedule(static)
      for (Index e = begin; e < end; ++e) {
        collect_slots(e, slots);
        pooling_weights(slots, width_, weight);
        ctx_.policy.cast(CastPoint::kPoolWeight, weight.data(), weight.size());
        pool(slots, weight, width_, pooled_.row(e).data());
      }
    }
    ctx_.emit(spec_.pooled, rows, rows_of(pooled_, begin, end - begin));
#pragma omp parallel for schedule(static) if (worth_threads(end - begin, width_, 8))
    for (Index e = begin; e < end; ++e) {
      ctx_.normalise(pooled_.row(e).data(), ctx_.vector(spec_.norm), width_, key.row(e).data());
      ctx_.rotate(key.row(e).data(), width_, rotation_position(e));
      if (!spec_.hadamard) continue;
      ctx_.policy.cast(CastPoint::kUnrotated, key.row(e).data(), width_);
      hadamard(key.row(e).data(), width_);
    }
    ctx_.emit(spec_.key, rows, rows_of(key, begin, end - begin));
    if (spec_.hadamard)
      for (Index e = begin; e < end; ++e) ctx_.policy.cast(CastPoint::kIndexOperand, key.row(e).data(), width_);
    ctx_.communicator.all_gather_rows(spec_.gather, key.data(), share());
  }

  /// vjp of `finish`, from the cotangent of key [E, width] (overwritten): leaves the cotangents of the projections.
  void finish_vjp(Matrix<Scalar>& dkey) {
    const Index begin = ctx_.plan.own_entry_begin, end = ctx_.plan.own_entry_end, tokens = ctx_.plan.tokens();
    const std::vector<Index> rows = ctx_.plan.own_entry_rows();
    ctx_.communicator.reduce_scatter_rows(spec_.reduce, dkey.data(), share());
    ctx_.emit_gradient(spec_.key, rows, rows_of(dkey, begin, end - begin));
    Scalar* dgain = ctx_.taps.weight_gradient(spec_.norm);
    for (Index e = begin; e < end; ++e) {
      Scalar* d = dkey.row(e).data();
      if (spec_.hadamard) hadamard(d, width_);
      ctx_.rope.rotate_back(d, width_, rotation_position(e));
      rms_norm_vjp(pooled_.row(e).data(), ctx_.vector(spec_.norm), ctx_.eps(), width_, d, d, dgain);
    }
    ctx_.emit_gradient(spec_.pooled, rows, rows_of(dkey, begin, end - begin));

    // Every half of a token's channels belongs to one group at most, so the groups' writes never meet; halves that
    // belong to none (trailing tokens, the first half of a segment's last group) stay zero.
    dvalue_.setZero(value_.rows(), channels_);
    dlogit_.setZero(value_.rows(), channels_);
#pragma omp parallel if (worth_threads(end - begin, ctx_.config().ratio, channels_, 16))
    {
      std::vector<PoolSlot<Scalar>> slots;
      Matrix<Scalar> weight;
#pragma omp for schedule(static)
      for (Index e = begin; e < end; ++e) {
        collect_slots(e, slots);
        pooling_weights(slots, width_, weight);
        for (std::size_t k = 0; k < slots.size(); ++k) {
          const Index at = slots[k].value - value_.data();
          pool_vjp(weight.row(static_cast<Index>(k)).data(), slots[k].value, pooled_.row(e).data(), dkey.row(e).data(),
                   width_, dvalue_.data() + at, dlogit_.data() + at);
        }
      }
    }
    for (Matrix<Scalar>* m : {&dvalue_, &dlogit_}) ctx_.policy.cast(CastPoint::kPoolCotangent, m->data(), m->size());
    if (Scalar* dape = ctx_.taps.weight_gradient(spec_.ape))
      for (Index r = 0; r < tokens; ++r)
        map(dape + (ctx_.plan.token_position[r] % ctx_.config().ratio) * channels_, 1, channels_) += dlogit_.row(r);
  }

  /// vjp of `project_tokens` for one block; adds to `dx` [rows, h] unless the input is detached.
  void project_tokens_vjp(const TokenBlock& block, const Matrix<Scalar>& x, Matrix<Scalar>& dx) {
    const Index first = block.compact.front();
    const auto dvalue = rows_of(std::as_const(dvalue_), first, x.rows());
    const auto dlogit = rows_of(std::as_const(dlogit_), first, x.rows());
    ctx_.add_weight_gradient(spec_.wkv, dvalue, all(x));
    ctx_.add_weight_gradient(spec_.wgate, dlogit, all(x));
    if (!spec_.hidden_attached) return;
    ctx_.add_hidden_gradient(dx, dvalue, spec_.wkv);
    ctx_.add_hidden_gradient(dx, dlogit, spec_.wgate);
  }

 private:
  contract::RowShare share() const {
    return {ctx_.plan.own_entry_begin, ctx_.plan.own_entry_end, ctx_.plan.entries(), width_};
  }

  Index rotation_position(Index e) const {
    return contract::entry_position(ctx_.plan.entry_group[e], ctx_.config().ratio);
  }

  void collect_slots(Index e, std::vector<PoolSlot<Scalar>>& slots) const {
    const Index ratio = ctx_.config().ratio, group = ctx_.plan.entry_group[e];
    const Index token = ctx_.plan.first_token[ctx_.plan.entry_segment[e]] + group * ratio;
    const Scalar* ape = ctx_.vector(spec_.ape);
    slots.clear();
    const auto add = [&](Index first_token, Index first_channel) {
      for (Index k = 0; k < ratio; ++k) {
        const Index at = (first_token + k) * channels_ + first_channel;
        slots.push_back({value_.data() + at, logit_.data() + at, ape + k * channels_ + first_channel});
      }
    };
    if (ctx_.config().overlap && group > 0) add(token - ratio, 0);
    add(token, channels_ - width_);
  }

  const Context<Policy>& ctx_;
  const CompressorSpec spec_;
  const Index width_;
  const Index channels_;            // coff * width
  Matrix<Scalar> value_, logit_;    // [R, coff * width]
  Matrix<Scalar> dvalue_, dlogit_;  // their cotangents
  Matrix<Scalar> pooled_;           // [E, width]
};

}  // namespace plumbline::reference
