#pragma once
#include <vector>

#include "reference/contract/config.hpp"
#include "reference/contract/packing.hpp"

namespace plumbline::reference {

using contract::Index;

/// Physical rows [begin, end) that one run owns: the queries it computes, and the entries whose last token it holds.
struct TokenRange {
  Index begin = 0;
  Index end = 0;
};

/// What part of the batch a run computes.
struct RowSelection {
  TokenRange range;               ///< the whole batch, or one rank's part of it
  std::vector<Index> query_rows;  ///< physical, ascending, each with row_valid 1; empty: all valid rows of the range
};

/// Where everything of a packed batch lies once padding has been compacted away. All arithmetic runs on compact rows,
/// so neither the amount nor the contents of padding can influence a result, not even in its last bit.
///
/// Tokens are those that the owned rows need: their own, and before them, within the segment, the halo that the first
/// query's window and the first owned group reach back to. Entries are those of the whole batch.
struct RowPlan {
  std::vector<Index> token_rows;      ///< [R] physical row of each real token
  std::vector<Index> token_position;  ///< [R] its position t in its segment
  std::vector<Index> token_segment;   ///< [R]
  std::vector<Index> first_token;    ///< [B] compact row of each segment's position 0; before row 0 when not among them
  std::vector<Index> entry_rows;     ///< [E] physical compressed row of each entry whose group is all real tokens
  std::vector<Index> entry_group;    ///< [E] its index g in its segment
  std::vector<Index> entry_segment;  ///< [E]
  std::vector<Index> first_entry;    ///< [B + 1] compact entry of each segment's first group
  Index own_entry_begin = 0;         ///< owned entries are [own_entry_begin, own_entry_end)
  Index own_entry_end = 0;
  std::vector<Index> queries;  ///< compact rows that have the query role in this run, ascending
  Index valid_rows = 0;        ///< N, over the whole batch
  Index longest_segment = 0;   ///< real tokens
  Index most_entries = 0;      ///< of one segment, real groups

  Index tokens() const { return static_cast<Index>(token_rows.size()); }
  Index entries() const { return static_cast<Index>(entry_rows.size()); }
  Index own_entries() const { return own_entry_end - own_entry_begin; }
  /// Physical compressed rows of the owned entries.
  std::vector<Index> own_entry_rows() const {
    return {entry_rows.begin() + own_entry_begin, entry_rows.begin() + own_entry_end};
  }
};

RowPlan make_row_plan(const contract::Packing& packing, const contract::LayerConfig& config,
                      const RowSelection& selection);

/// Some compact token rows, processed together: indices of their tokens, and what the stages need of each.
struct TokenBlock {
  std::vector<Index> compact;
  std::vector<Index> physical;
  std::vector<Index> position;

  Index count() const { return static_cast<Index>(compact.size()); }
};

/// Tokens in a block. Large enough that packing a weight for a product is cheap next to the product itself.
inline constexpr Index kTokenBlock = 528;

/// `compact` cut into blocks of at most kTokenBlock.
std::vector<TokenBlock> make_token_blocks(const RowPlan& plan, const std::vector<Index>& compact);
std::vector<TokenBlock> make_token_blocks(const RowPlan& plan);  ///< all the plan's tokens

}  // namespace plumbline::reference
