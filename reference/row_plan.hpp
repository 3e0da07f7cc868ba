#pragma once
#include <vector>

#include "reference/contract/packing.hpp"

namespace plumbline::reference {

using contract::Index;

/// Where everything of a packed batch lies once padding has been compacted away. All arithmetic runs on compact rows,
/// so neither the amount nor the contents of padding can influence a result, not even in its last bit.
struct RowPlan {
  std::vector<Index> token_rows;      ///< [R] physical row of each real token
  std::vector<Index> token_position;  ///< [R] its position t in its segment
  std::vector<Index> token_segment;   ///< [R]
  std::vector<Index> first_token;     ///< [B] compact row of each segment's first token
  std::vector<Index> entry_rows;      ///< [E] physical compressed row of each entry whose group is all real tokens
  std::vector<Index> entry_group;     ///< [E] its index g in its segment
  std::vector<Index> entry_segment;   ///< [E]
  std::vector<Index> first_entry;     ///< [B + 1] compact entry of each segment's first group
  std::vector<Index> queries;         ///< compact rows that have the query role in this run, ascending
  Index valid_rows = 0;               ///< N, over the whole batch whatever `queries` holds
  Index longest_segment = 0;          ///< real tokens
  Index most_entries = 0;             ///< of one segment, real groups

  Index tokens() const { return static_cast<Index>(token_rows.size()); }
  Index entries() const { return static_cast<Index>(entry_rows.size()); }
};

/// `query_rows` (physical, ascending, each with row_valid 1) restricts the queries; empty: all valid rows.
RowPlan make_row_plan(const contract::Packing& packing, Index ratio, const std::vector<Index>& query_rows);

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
std::vector<TokenBlock> make_token_blocks(const RowPlan& plan);  ///< all real tokens

}  // namespace plumbline::reference
