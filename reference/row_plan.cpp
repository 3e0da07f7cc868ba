#include "reference/row_plan.hpp"

#include <algorithm>
#include <numeric>

namespace plumbline::reference {

RowPlan make_row_plan(const contract::Packing& packing, Index ratio, const std::vector<Index>& query_rows) {
  RowPlan plan;
  plan.valid_rows = packing.valid_rows();
  for (Index b = 0; b < packing.segments(); ++b) {
    plan.first_token.push_back(plan.tokens());
    plan.first_entry.push_back(plan.entries());
    plan.longest_segment = std::max(plan.longest_segment, packing.lengths[b]);
    for (Index t = 0; t < packing.lengths[b]; ++t) {
      plan.token_rows.push_back(packing.offsets[b] + t);
      plan.token_position.push_back(t);
      plan.token_segment.push_back(b);
    }
  }
  Index first_physical_entry = 0;
  for (Index b = 0; b < packing.segments(); ++b) {
    const Index groups = contract::group_count(packing.lengths[b], ratio);
    plan.first_entry[b] = plan.entries();
    plan.most_entries = std::max(plan.most_entries, groups);
    for (Index g = 0; g < groups; ++g) {
      plan.entry_rows.push_back(first_physical_entry + g);
      plan.entry_group.push_back(g);
      plan.entry_segment.push_back(b);
    }
    first_physical_entry += packing.groups(b, ratio);
  }
  plan.first_entry.push_back(plan.entries());
  for (Index r = 0; r < plan.tokens(); ++r) {
    const Index row = plan.token_rows[r];
    const bool asked = query_rows.empty() || std::binary_search(query_rows.begin(), query_rows.end(), row);
    if (packing.row_valid[row] && asked) plan.queries.push_back(r);
  }
  return plan;
}

std::vector<TokenBlock> make_token_blocks(const RowPlan& plan, const std::vector<Index>& compact) {
  std::vector<TokenBlock> blocks;
  for (std::size_t i = 0; i < compact.size(); ++i) {
    if (i % kTokenBlock == 0) blocks.emplace_back();
    TokenBlock& block = blocks.back();
    block.compact.push_back(compact[i]);
    block.physical.push_back(plan.token_rows[compact[i]]);
    block.position.push_back(plan.token_position[compact[i]]);
  }
  return blocks;
}

std::vector<TokenBlock> make_token_blocks(const RowPlan& plan) {
  std::vector<Index> every(plan.token_rows.size());
  std::iota(every.begin(), every.end(), Index{0});
  return make_token_blocks(plan, every);
}

}  // namespace plumbline::reference
