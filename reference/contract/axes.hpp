#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "reference/contract/config.hpp"
#include "reference/contract/packing.hpp"
#include "reference/contract/tensor.hpp"

namespace plumbline::contract {

/// The axes of every tensor of the layer. Their names are fixed here and used in code, files and reports.
enum class Axis : unsigned char {
  kNone,            ///< absent (a tensor of lower rank)
  kToken,           ///< T physical rows
  kEntry,           ///< M compressed rows, segment-major: sum over segments of n[b]
  kCandidate,       ///< n_max compressed columns, segment-local; 0 without the indexer
  kPick,            ///< min(K, n_max) selected entries
  kHidden,          ///< h
  kHead,            ///< H
  kHeadDim,         ///< D
  kHeadByDim,       ///< H * D
  kQueryRank,       ///< Rq
  kGroupByRank,     ///< G * Ro
  kGroupInput,      ///< H / G * D
  kIndexHead,       ///< Hi
  kIndexDim,        ///< Di
  kIndexHeadByDim,  ///< Hi * Di
  kPoolDim,         ///< coff * D
  kIndexPoolDim,    ///< coff * Di
  kSlot,            ///< ratio, token slots of one group
};

constexpr std::string_view name_of(Axis axis) {
  switch (axis) {
    case Axis::kNone: return "";
    case Axis::kToken: return "token";
    case Axis::kEntry: return "entry";
    case Axis::kCandidate: return "candidate";
    case Axis::kPick: return "pick";
    case Axis::kHidden: return "hidden";
    case Axis::kHead: return "head";
    case Axis::kHeadDim: return "channel";
    case Axis::kHeadByDim: return "head*channel";
    case Axis::kQueryRank: return "q_rank";
    case Axis::kGroupByRank: return "group*o_rank";
    case Axis::kGroupInput: return "group_head*channel";
    case Axis::kIndexHead: return "index_head";
    case Axis::kIndexDim: return "index_channel";
    case Axis::kIndexHeadByDim: return "index_head*index_channel";
    case Axis::kPoolDim: return "half*channel";
    case Axis::kIndexPoolDim: return "half*index_channel";
    case Axis::kSlot: return "slot";
  }
  return "";
}

using Axes = std::array<Axis, 3>;

inline Index extent(Axis axis, const LayerConfig& c, const Packing& p) {
  const Index candidates = c.indexer ? p.max_groups(c.ratio) : 0;
  switch (axis) {
    case Axis::kNone: return 1;
    case Axis::kToken: return p.tokens();
    case Axis::kEntry: return p.total_groups(c.ratio);
    case Axis::kCandidate: return candidates;
    case Axis::kPick: return c.indexer ? std::min(c.index_topk, candidates) : 0;
    case Axis::kHidden: return c.hidden;
    case Axis::kHead: return c.heads;
    case Axis::kHeadDim: return c.head_dim;
    case Axis::kHeadByDim: return c.heads * c.head_dim;
    case Axis::kQueryRank: return c.q_lora_rank;
    case Axis::kGroupByRank: return c.o_groups * c.o_lora_rank;
    case Axis::kGroupInput: return c.heads_per_group() * c.head_dim;
    case Axis::kIndexHead: return c.index_heads;
    case Axis::kIndexDim: return c.index_dim;
    case Axis::kIndexHeadByDim: return c.index_heads * c.index_dim;
    case Axis::kPoolDim: return c.coff() * c.head_dim;
    case Axis::kIndexPoolDim: return c.coff() * c.index_dim;
    case Axis::kSlot: return c.ratio;
  }
  return 0;
}

inline Shape shape_of(const Axes& axes, const LayerConfig& c, const Packing& p) {
  Shape shape;
  for (Axis axis : axes)
    if (axis != Axis::kNone) shape.push_back(extent(axis, c, p));
  return shape;
}

}  // namespace plumbline::contract
