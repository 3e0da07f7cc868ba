#pragma once
#include <cstdint>
#include <vector>

#include "reference/contract/index_math.hpp"
#include "reference/contract/result.hpp"

namespace plumbline::contract {

/// A packed batch of B segments (`attention.md` section 1). Segment b occupies physical rows
/// offsets[b] .. offsets[b+1]-1, of which the first lengths[b] are real tokens and the rest padding.
struct Packing {
  std::vector<Index> offsets{0};        ///< [B+1], first 0, last T, never going down
  std::vector<Index> lengths;           ///< [B], 0 <= lengths[b] <= offsets[b+1] - offsets[b]
  std::vector<std::uint8_t> row_valid;  ///< [T], 1 for rows with the query role; 0 on all padding

  bool operator==(const Packing&) const = default;

  Index segments() const { return static_cast<Index>(lengths.size()); }
  Index tokens() const { return offsets.back(); }
  Index physical_length(Index b) const { return offsets[b + 1] - offsets[b]; }
  Index real_tokens() const;
  Index valid_rows() const;  ///< N
  /// Segment that holds physical row i (segments of length zero never do).
  Index segment_of(Index row) const;
  bool is_padding(Index row) const;
  /// Compressed rows of segment b, all segments together, and of the longest segment.
  Index groups(Index b, Index ratio) const { return group_count(physical_length(b), ratio); }
  Index total_groups(Index ratio) const;
  Index max_groups(Index ratio) const;
};

/// Checks shapes, order and validity flags; the error's `where` is the field.
Status validate(const Packing& packing);

/// Builds a packing from real lengths, each segment's physical length rounded up to a multiple of `pad` (>= 1),
/// every real row valid.
Packing make_packing(const std::vector<Index>& lengths, Index pad);

}  // namespace plumbline::contract
