#include "reference/row_plan.hpp"

#include <algorithm>
#include <numeric>

namespace plumbline::reference {

namespace {

/// Positions [begin, end) of a segment that are computed, given that of them only [own_begin, own_end) are owned.
struct Positions {
  Index own_begin, begin, end;
};

Positions needed_positions(const contract::Packing& packing, const contract::LayerConfig& config, TokenRange range,
                           Index b) {
  const Index own_begin = std::clamp(range.begin - packing.offsets[b], Index{0}, packing.lengths[b]);
  const Index end = std::clamp(range.end - packing.offsets[b], own_begin, packing.lengths[b]);
  if (own_begin == end) return {own_begin, own_begin, own_begin};
  const Index group_reach = config.compressed() ? config.coff() * config.ratio - 1 : 0;
  return {own_begin, std::max(Index{0}, own_begin - std::max(config.window - 1, group_reach)), end};
}

void add_tokens(RowPlan& plan, const contract::Packing& packing, const contract::LayerConfig& config,
                const RowSelection& selection) {
  const std::vector<Index>& asked = selection.query_rows;
  for (Index b = 0; b < packing.segments(); ++b) {
    const Positions positions = needed_positions(packing, config, selection.range, b);
    plan.longest_segment = std::max(plan.longest_segment, packing.lengths[b]);
    plan.first_token.push_back(plan.tokens() - positions.begin);
    for (Index t = positions.begin; t < positions.end; ++t) {
      const Index row = packing.offsets[b] + t;
      if (t >= positions.own_begin && packing.row_valid[row] &&
          (asked.empty() || std::binary_search(asked.begin(), asked.end(), row)))
        plan.queries.push_back(plan.tokens());
      plan.token_rows.push_back(row);
      plan.token_position.push_back(t);
      plan.token_segment.push_back(b);
    }
  }
}

void add_entries(RowPlan& plan, const contract::Packing& packing, const contract::LayerConfig& config,
                 TokenRange range) {
  Index first_physical_entry = 0, before = 0, owned = 0;
  for (Index b = 0; b < packing.segments(); ++b) {
    const Index groups = contract::group_count(packing.lengths[b], config.ratio);
    plan.first_entry.push_back(plan.entries());
    plan.most_entries = std::max(plan.most_entries, groups);
    for (Index g = 0; g < groups; ++g) {
      const Index last_token = packing.offsets[b] + (g + 1) * config.ratio - 1;
      before += last_token < range.begin;
      owned += last_token >= range.begin && last_token < range.end;
      plan.entry_rows.push_back(first_physical_entry + g);
      plan.entry_group.push_back(g);
      plan.entry_segment.push_back(b);
    }
    first_physical_entry += packing.groups(b, config.ratio);
  }
  plan.first_entry.push_back(plan.entries());
  plan.own_entry_begin = before;
  plan.own_entry_end = before + owned;
}

}  // namespace

RowPlan make_row_plan(const contract::Packing& packing, const contract::LayerConfig& config,
                      const RowSelection& selection) {
  RowPlan plan;
  plan.valid_rows = packing.valid_rows();
  add_tokens(plan, packing, config, selection);
  add_entries(plan, packing, config, selection.range);
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
