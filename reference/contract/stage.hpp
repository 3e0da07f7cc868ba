#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "reference/contract/weight.hpp"

namespace plumbline::contract {

/// The stages of the layer, in the order in which they are computed. Names: `info(id).name`.
enum class StageId : unsigned char {
  kQDown,
  kQLatent,
  kQUp,
  kQ,
  kKvProj,
  kKv,
  kCompressedPooled,
  kCompressedKv,
  kIndexQ,
  kIndexPooled,
  kIndexK,
  kIndexW,
  kIndexScores,
  kTopk,
  kAttnOut,
  kAttnLse,
  kMaxLogits,
  kAttnOutDerotated,
  kOLatent,
  kOut,
  kTeacher,
  kPredict,
  kKlRows,
  kIndexerLoss,
};

/// What a row of the stage belongs to; decides where its values are specified (`specified.hpp`).
enum class Role : unsigned char {
  kQueryInput,   ///< computed from a query's own row; specified on valid rows
  kQueryResult,  ///< what a query produces; a fixed value on rows without the query role
  kKey,          ///< specified on every real token
  kEntry,        ///< specified on compressed rows whose group has no padding
  kBatch,        ///< one value (or one a head) for the whole batch
};

/// How two values of the stage are compared.
enum class Comparator : unsigned char {
  kReal,       ///< max|a-b| / max|b| over specified finite entries, infinities in place
  kSelection,  ///< rows of indices as sets
  kLoss,       ///< absolute, against the loss's own condition
};

/// One stage: the single place where its name, shape, inputs and rules are written down.
struct StageInfo {
  StageId id;
  std::string_view name;
  Presence presence;
  bool always_stored;  ///< present in files of every layer kind (with zero columns where there is no indexer)
  bool has_gradient;
  Role role;
  Axes axes;
  Axis reduction;  ///< the axis summed over to make one element; kNone: elementwise
  Comparator comparator;
  std::string_view inputs;   ///< stages, weights and inputs it is computed from, space separated
  std::string_view formula;  ///< in the notation of the contract
  std::string_view file;     ///< where the reference computes it
};

// clang-format off
inline constexpr auto kStages = std::to_array<StageInfo>({
    {StageId::kQDown, "q_down", Presence::kAlways, false, true, Role::kQueryInput, {Axis::kToken, Axis::kQueryRank}, Axis::kHidden, Comparator::kReal,
     "hidden wq_a", "q_down = hidden . wq_a^T", "reference/qkv.hpp"},
    {StageId::kQLatent, "q_latent", Presence::kAlways, false, true, Role::kQueryInput, {Axis::kToken, Axis::kQueryRank}, Axis::kQueryRank, Comparator::kReal,
     "q_down q_norm", "q_latent = rms(q_down; q_norm)", "reference/qkv.hpp"},
    {StageId::kQUp, "q_up", Presence::kAlways, false, true, Role::kQueryInput, {Axis::kToken, Axis::kHead, Axis::kHeadDim}, Axis::kQueryRank, Comparator::kReal,
     "q_latent wq_b", "q_up = q_latent . wq_b^T", "reference/qkv.hpp"},
    {StageId::kQ, "q", Presence::kAlways, false, true, Role::kQueryInput, {Axis::kToken, Axis::kHead, Axis::kHeadDim}, Axis::kHeadDim, Comparator::kReal,
     "q_up", "q = rope(rms(q_up), t), per head, rms without weight", "reference/qkv.hpp"},
    {StageId::kKvProj, "kv_proj", Presence::kAlways, false, true, Role::kKey, {Axis::kToken, Axis::kHeadDim}, Axis::kHidden, Comparator::kReal,
     "hidden wkv", "kv_proj = hidden . wkv^T", "reference/qkv.hpp"},
    {StageId::kKv, "kv", Presence::kAlways, false, true, Role::kKey, {Axis::kToken, Axis::kHeadDim}, Axis::kHeadDim, Comparator::kReal,
     "kv_proj kv_norm", "kv = rope(rms(kv_proj; kv_norm), t); key and value at once", "reference/qkv.hpp"},
    {StageId::kCompressedPooled, "compressed_pooled", Presence::kCompressed, false, true, Role::kEntry, {Axis::kEntry, Axis::kHeadDim}, Axis::kSlot, Comparator::kReal,
     "hidden compressor.wkv compressor.wgate compressor.ape", "compressed_pooled[g,c] = sum_slot softmax_slot(s + ape)[slot,c] * a[slot,c]", "reference/compressor.hpp"},
    {StageId::kCompressedKv, "compressed_kv", Presence::kCompressed, false, true, Role::kEntry, {Axis::kEntry, Axis::kHeadDim}, Axis::kHeadDim, Comparator::kReal,
     "compressed_pooled compressor.norm", "compressed_kv[g] = rope(rms(compressed_pooled[g]; compressor.norm), g*ratio)", "reference/compressor.hpp"},
    {StageId::kIndexQ, "index_q", Presence::kIndexer, false, true, Role::kQueryInput, {Axis::kToken, Axis::kIndexHead, Axis::kIndexDim}, Axis::kQueryRank, Comparator::kReal,
     "q_latent indexer.wq_b", "index_q = hadamard(rope(q_latent . indexer.wq_b^T, t)), input detached", "reference/indexer.hpp"},
    {StageId::kIndexPooled, "index_pooled", Presence::kIndexer, false, true, Role::kEntry, {Axis::kEntry, Axis::kIndexDim}, Axis::kSlot, Comparator::kReal,
     "hidden indexer.compressor.wkv indexer.compressor.wgate indexer.compressor.ape", "index_pooled: as compressed_pooled with the indexer's compressor, input detached", "reference/compressor.hpp"},
    {StageId::kIndexK, "index_k", Presence::kIndexer, false, true, Role::kEntry, {Axis::kEntry, Axis::kIndexDim}, Axis::kIndexDim, Comparator::kReal,
     "index_pooled indexer.compressor.norm", "index_k[g] = hadamard(rope(rms(index_pooled[g]; indexer.compressor.norm), g*ratio))", "reference/compressor.hpp"},
    {StageId::kIndexW, "index_w", Presence::kIndexer, false, true, Role::kQueryInput, {Axis::kToken, Axis::kIndexHead}, Axis::kHidden, Comparator::kReal,
     "hidden indexer.weights_proj", "index_w = (hidden . indexer.weights_proj^T) / sqrt(Hi), input detached", "reference/indexer.hpp"},
    {StageId::kIndexScores, "index_scores", Presence::kIndexer, true, true, Role::kQueryResult, {Axis::kToken, Axis::kCandidate}, Axis::kIndexHeadByDim, Comparator::kReal,
     "index_q index_k index_w", "index_scores[i,g] = Di^(-1/2) * sum_h index_w[i,h] * relu(index_q[i,h] . index_k[g]); -inf where not visible", "reference/indexer.hpp"},
    {StageId::kTopk, "topk", Presence::kIndexer, true, false, Role::kQueryResult, {Axis::kToken, Axis::kPick}, Axis::kCandidate, Comparator::kSelection,
     "index_scores", "topk[i] = the K visible entries of highest score; ties to the smaller index; -1 = none", "reference/indexer.hpp"},
    {StageId::kAttnOut, "attn_out", Presence::kAlways, false, true, Role::kQueryResult, {Axis::kToken, Axis::kHead, Axis::kHeadDim}, Axis::kNone, Comparator::kReal,
     "q kv compressed_kv topk attn_sink", "attn_out[i,h] = sum_keys exp(z - attn_lse) * key, z = D^(-1/2) q . key", "reference/attention.hpp"},
    {StageId::kAttnLse, "attn_lse", Presence::kAlways, false, false, Role::kQueryResult, {Axis::kToken, Axis::kHead}, Axis::kNone, Comparator::kReal,
     "q kv compressed_kv topk attn_sink", "attn_lse[i,h] = log(exp(attn_sink[h]) + sum_keys exp(z))", "reference/attention.hpp"},
    {StageId::kMaxLogits, "max_logits", Presence::kAlways, false, false, Role::kBatch, {Axis::kHead}, Axis::kToken, Comparator::kReal,
     "q kv compressed_kv topk", "max_logits[h] = largest z of the head over valid rows and their keys; -inf if there are none", "reference/attention.hpp"},
    {StageId::kAttnOutDerotated, "attn_out_derotated", Presence::kAlways, false, true, Role::kQueryResult, {Axis::kToken, Axis::kHead, Axis::kHeadDim}, Axis::kNone, Comparator::kReal,
     "attn_out", "attn_out_derotated = rope_inverse(attn_out, t)", "reference/output.hpp"},
    {StageId::kOLatent, "o_latent", Presence::kAlways, false, true, Role::kQueryResult, {Axis::kToken, Axis::kGroupByRank}, Axis::kGroupInput, Comparator::kReal,
     "attn_out_derotated wo_a", "o_latent, block j = group_j . wo_a[j]^T", "reference/output.hpp"},
    {StageId::kOut, "out", Presence::kAlways, false, true, Role::kQueryResult, {Axis::kToken, Axis::kHidden}, Axis::kGroupByRank, Comparator::kReal,
     "o_latent wo_b", "out = o_latent . wo_b^T", "reference/output.hpp"},
    {StageId::kTeacher, "teacher", Presence::kIndexer, false, false, Role::kQueryResult, {Axis::kToken, Axis::kCandidate}, Axis::kHead, Comparator::kReal,
     "q kv compressed_kv topk attn_sink", "teacher[g] = sum_h p[h,g] / sum_{g in C} sum_h p[h,g], p = exp(z - L); 0 where not a candidate", "reference/loss.hpp"},
    {StageId::kPredict, "predict", Presence::kIndexer, false, false, Role::kQueryResult, {Axis::kToken, Axis::kCandidate}, Axis::kCandidate, Comparator::kReal,
     "index_scores topk", "predict = softmax over C of index_scores; 0 where not a candidate", "reference/loss.hpp"},
    {StageId::kKlRows, "kl_rows", Presence::kIndexer, true, true, Role::kQueryResult, {Axis::kToken}, Axis::kCandidate, Comparator::kReal,
     "teacher index_scores", "kl_rows[i] = sum_{g in C} teacher (ln teacher - ln predict), 0 ln 0 = 0", "reference/loss.hpp"},
    {StageId::kIndexerLoss, "indexer_loss", Presence::kIndexer, true, false, Role::kBatch, {}, Axis::kToken, Comparator::kLoss,
     "kl_rows", "indexer_loss = loss_coeff * sum_i kl_rows[i] / (per_token_loss ? 1 : max(N, 1))", "reference/loss.hpp"},
});
// clang-format on

inline constexpr std::size_t kStageCount = kStages.size();

constexpr const StageInfo& info(StageId id) { return kStages[static_cast<std::size_t>(id)]; }

constexpr std::optional<StageId> find_stage(std::string_view name) {
  for (const StageInfo& stage : kStages)
    if (stage.name == name) return stage.id;
  return std::nullopt;
}

/// Whether a layer of this configuration produces the stage's dataset at all.
inline bool produced(const StageInfo& stage, const LayerConfig& config) {
  return stage.always_stored || present(stage.presence, config);
}

namespace detail {
template <typename Table>
constexpr bool rows_are_in_id_order(const Table& table) {
  for (std::size_t i = 0; i < table.size(); ++i)
    if (static_cast<std::size_t>(table[i].id) != i) return false;
  return true;
}
static_assert(rows_are_in_id_order(kStages) && rows_are_in_id_order(kWeights));
}  // namespace detail

}  // namespace plumbline::contract
