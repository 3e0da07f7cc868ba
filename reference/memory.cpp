#include "reference/memory.hpp"

#include <algorithm>

#include "reference/row_plan.hpp"

namespace plumbline::reference {

using contract::DatasetId;

double memory_bytes(const contract::LayerConfig& c, const contract::Packing& p, const contract::Request& request,
                    double scalar_bytes) {
  const auto elements = [&](const contract::Axes& axes) {
    double count = 1;
    for (const contract::Axis axis : axes)
      if (axis != contract::Axis::kNone) count *= double(contract::extent(axis, c, p));
    return count;
  };
  double problem = 2.0 * double(p.tokens()) * double(c.hidden);
  for (const contract::WeightInfo& weight : contract::kWeights)
    if (contract::present(weight.presence, c)) problem += elements(weight.axes);
  double results = 0;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const DatasetId id = DatasetId::from_index(i); request.wants(id) && id.exists(c))
      results += elements(id.axes());

  const double tokens = double(p.real_tokens()), block = std::min(double(kTokenBlock), tokens + 24);
  const double entries = c.compressed() ? tokens / double(c.ratio) : 0;
  const bool backward = request.wants_gradients();
  const double pool = c.compressed() ? double(c.coff()) * double(c.head_dim + (c.indexer ? c.index_dim : 0)) : 0;
  const double batch =
      tokens * (double(c.head_dim) * (backward ? 3 : 2) + pool * (backward ? 4 : 2) + double(c.rope_dim)) +
      entries * double(c.head_dim + c.index_dim) * 3;
  const double head_channels = double(c.heads) * double(c.head_dim);
  const double query =
      block * (head_channels * (backward ? 7 : 4) + double(c.index_heads) * double(c.index_dim) * (backward ? 2 : 1) +
               2.0 * double(c.o_groups) * double(c.o_lora_rank) + 4.0 * double(c.hidden) + 3.0 * double(c.q_lora_rank));
  const double most_entries = c.compressed() ? double(p.max_groups(c.ratio)) : 0;
  const double picks = c.indexer ? std::min(double(c.index_topk), most_entries) : most_entries;
  const double tile = 48 * (double(c.heads) * (std::min(double(c.window), tokens) + picks) * 3 +
                            most_entries * (4 + double(c.heads + c.index_heads)));
  const double converted = scalar_bytes == 8 ? 0 : problem * scalar_bytes;
  return problem * 8 + converted + (results + batch + query + tile) * scalar_bytes +
         (scalar_bytes == 8 ? 0 : results * 8);
}

}  // namespace plumbline::reference
