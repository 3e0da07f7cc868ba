#pragma once
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "reference/contract/axes.hpp"

namespace plumbline::contract {

/// Which layers have a stage or weight.
enum class Presence : unsigned char {
  kAlways,
  kCompressed,  ///< ratio > 1
  kIndexer,     ///< indexer on
};

inline bool present(Presence presence, const LayerConfig& c) {
  switch (presence) {
    case Presence::kAlways: return true;
    case Presence::kCompressed: return c.compressed();
    case Presence::kIndexer: return c.indexer;
  }
  return false;
}

enum class WeightId : unsigned char {
  kWqA,
  kQNorm,
  kWqB,
  kWkv,
  kKvNorm,
  kAttnSink,
  kWoA,
  kWoB,
  kCompressorWkv,
  kCompressorWgate,
  kCompressorApe,
  kCompressorNorm,
  kIndexerWqB,
  kIndexerWeightsProj,
  kIndexerCompressorWkv,
  kIndexerCompressorWgate,
  kIndexerCompressorApe,
  kIndexerCompressorNorm,
};

/// One weight: its checkpoint name, axes as stored (output x input, y = x W^T, never a bias), and facts about it.
struct WeightInfo {
  WeightId id;
  std::string_view name;
  Presence presence;
  Axes axes;
  bool fp32_storage;     ///< kept in fp32 by every profile (attn_sink, ape)
  bool may_be_infinite;  ///< attn_sink alone
  std::string_view meaning;
};

// clang-format off
inline constexpr auto kWeights = std::to_array<WeightInfo>({
    {WeightId::kWqA, "wq_a", Presence::kAlways, {Axis::kQueryRank, Axis::kHidden}, false, false, "query down projection"},
    {WeightId::kQNorm, "q_norm", Presence::kAlways, {Axis::kQueryRank}, false, false, "gain of the query latent's rms"},
    {WeightId::kWqB, "wq_b", Presence::kAlways, {Axis::kHeadByDim, Axis::kQueryRank}, false, false, "query up projection"},
    {WeightId::kWkv, "wkv", Presence::kAlways, {Axis::kHeadDim, Axis::kHidden}, false, false, "projection of the single KV head"},
    {WeightId::kKvNorm, "kv_norm", Presence::kAlways, {Axis::kHeadDim}, false, false, "gain of the KV rms"},
    {WeightId::kAttnSink, "attn_sink", Presence::kAlways, {Axis::kHead}, true, true, "sink logit of each head"},
    {WeightId::kWoA, "wo_a", Presence::kAlways, {Axis::kGroupByRank, Axis::kGroupInput}, false, false, "grouped output down projection"},
    {WeightId::kWoB, "wo_b", Presence::kAlways, {Axis::kHidden, Axis::kGroupByRank}, false, false, "output up projection"},
    {WeightId::kCompressorWkv, "compressor.wkv", Presence::kCompressed, {Axis::kPoolDim, Axis::kHidden}, false, false, "compressor values"},
    {WeightId::kCompressorWgate, "compressor.wgate", Presence::kCompressed, {Axis::kPoolDim, Axis::kHidden}, false, false, "compressor pooling logits"},
    {WeightId::kCompressorApe, "compressor.ape", Presence::kCompressed, {Axis::kSlot, Axis::kPoolDim}, true, false, "position bias of the pooling logits"},
    {WeightId::kCompressorNorm, "compressor.norm", Presence::kCompressed, {Axis::kHeadDim}, false, false, "gain of the compressed rms"},
    {WeightId::kIndexerWqB, "indexer.wq_b", Presence::kIndexer, {Axis::kIndexHeadByDim, Axis::kQueryRank}, false, false, "indexer query projection"},
    {WeightId::kIndexerWeightsProj, "indexer.weights_proj", Presence::kIndexer, {Axis::kIndexHead, Axis::kHidden}, false, false, "indexer head weights"},
    {WeightId::kIndexerCompressorWkv, "indexer.compressor.wkv", Presence::kIndexer, {Axis::kIndexPoolDim, Axis::kHidden}, false, false, "indexer compressor values"},
    {WeightId::kIndexerCompressorWgate, "indexer.compressor.wgate", Presence::kIndexer, {Axis::kIndexPoolDim, Axis::kHidden}, false, false, "indexer compressor pooling logits"},
    {WeightId::kIndexerCompressorApe, "indexer.compressor.ape", Presence::kIndexer, {Axis::kSlot, Axis::kIndexPoolDim}, true, false, "position bias of the indexer's pooling logits"},
    {WeightId::kIndexerCompressorNorm, "indexer.compressor.norm", Presence::kIndexer, {Axis::kIndexDim}, false, false, "gain of the indexer key's rms"},
});
// clang-format on

inline constexpr std::size_t kWeightCount = kWeights.size();

constexpr const WeightInfo& info(WeightId id) { return kWeights[static_cast<std::size_t>(id)]; }

constexpr std::optional<WeightId> find_weight(std::string_view name) {
  for (const WeightInfo& weight : kWeights)
    if (weight.name == name) return weight.id;
  return std::nullopt;
}

}  // namespace plumbline::contract
