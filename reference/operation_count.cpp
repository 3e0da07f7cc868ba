#include "reference/operation_count.hpp"

#include <algorithm>

#include "reference/contract/index_math.hpp"

namespace plumbline::reference {

using namespace contract;

namespace {

/// Sums over the valid rows.
struct SeenKeys {
  double attended = 0;    ///< window and picks
  double visible = 0;     ///< entries
  double candidates = 0;  ///< entries of the indexer's loss
};

SeenKeys count_keys(const LayerConfig& c, const Packing& packing) {
  SeenKeys seen;
  for (Index b = 0; b < packing.segments(); ++b)
    for (Index t = 0; t < packing.lengths[static_cast<std::size_t>(b)]; ++t) {
      if (!packing.row_valid[static_cast<std::size_t>(packing.offsets[static_cast<std::size_t>(b)] + t)]) continue;
      const Index visible = visible_entries(t, c.ratio, packing.groups(b, c.ratio));
      const Index picks = c.indexer ? std::min(visible, c.index_topk) : visible;
      seen.attended += static_cast<double>(t - window_begin(t, c.window) + 1 + picks);
      seen.visible += static_cast<double>(visible);
      seen.candidates += static_cast<double>(c.sparse_loss ? picks : visible);
    }
  return seen;
}

}  // namespace

std::vector<StageOperations> operation_counts(const LayerConfig& c, const Packing& packing) {
  const double tokens = static_cast<double>(packing.real_tokens()), rows = static_cast<double>(packing.valid_rows());
  const double hidden = double(c.hidden), rank = double(c.q_lora_rank), heads = double(c.heads) * double(c.head_dim);
  const double index_heads = double(c.index_heads) * double(c.index_dim), o_rank = double(c.o_lora_rank);
  const double o_latent = double(c.o_groups) * o_rank, coff = double(c.coff());
  const SeenKeys seen = count_keys(c, packing);
  std::vector<StageOperations> counts;
  const auto projection = [&](StageId stage, double count, double inputs, double outputs, bool attached) {
    const double forward = 2 * count * inputs * outputs;
    counts.push_back({stage, forward, forward * (attached ? 2 : 1)});
  };
  projection(StageId::kQDown, rows, hidden, rank, true);
  projection(StageId::kQUp, rows, rank, heads, true);
  projection(StageId::kKvProj, tokens, hidden, double(c.head_dim), true);
  if (c.compressed()) projection(StageId::kCompressedPooled, tokens, hidden, 2 * coff * double(c.head_dim), true);
  if (c.indexer) {
    projection(StageId::kIndexQ, rows, rank, index_heads, false);
    projection(StageId::kIndexPooled, tokens, hidden, 2 * coff * double(c.index_dim), false);
    projection(StageId::kIndexW, rows, hidden, double(c.index_heads), false);
    counts.push_back({StageId::kIndexScores, 2 * index_heads * seen.visible, 4 * index_heads * seen.candidates});
  }
  counts.push_back({StageId::kAttnOut, 4 * heads * seen.attended, 8 * heads * seen.attended});
  projection(StageId::kOLatent, rows, heads, o_rank, true);
  projection(StageId::kOut, rows, o_latent, hidden, true);
  if (c.indexer && !c.sparse_loss) counts.push_back({StageId::kTeacher, 2 * heads * seen.visible, 0});
  return counts;
}

double total_operations(const LayerConfig& config, const Packing& packing, bool backward) {
  double total = 0;
  for (const StageOperations& count : operation_counts(config, packing))
    total += count.forward + (backward ? count.backward : 0);
  return total;
}

}  // namespace plumbline::reference
