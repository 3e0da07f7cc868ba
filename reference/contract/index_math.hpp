#pragma once
#include "reference/contract/types.hpp"

// Which keys a query sees. Host and device code use these and nothing else, so that they cannot disagree.
// All positions are within a segment.
namespace plumbline::contract {

/// First window key of the query at position t: max(0, t - window + 1). Its last one is t.
PLUMBLINE_HOST_DEVICE constexpr Index window_begin(Index t, Index window) {
  return t - window + 1 > 0 ? t - window + 1 : 0;
}

/// Whole groups in a segment of `physical_length` rows; 0 when the layer does not compress.
PLUMBLINE_HOST_DEVICE constexpr Index group_count(Index physical_length, Index ratio) {
  return ratio > 1 ? physical_length / ratio : 0;
}

/// Compressed entries visible to the query at position t: those whose last token is at or before t,
/// min(floor((t + 1) / ratio), n).
PLUMBLINE_HOST_DEVICE constexpr Index visible_entries(Index t, Index ratio, Index n) {
  if (ratio <= 1) return 0;
  const Index complete = (t + 1) / ratio;
  return complete < n ? complete : n;
}

/// Rotation position of compressed entry g: its own group's first token.
PLUMBLINE_HOST_DEVICE constexpr Index entry_position(Index g, Index ratio) { return g * ratio; }

}  // namespace plumbline::contract
