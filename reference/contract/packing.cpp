#include "reference/contract/packing.hpp"

#include <algorithm>
#include <numeric>
#include <string>

namespace plumbline::contract {

Index Packing::real_tokens() const { return std::accumulate(lengths.begin(), lengths.end(), Index{0}); }

Index Packing::valid_rows() const { return std::count(row_valid.begin(), row_valid.end(), std::uint8_t{1}); }

Index Packing::segment_of(Index row) const {
  return std::upper_bound(offsets.begin(), offsets.end(), row) - offsets.begin() - 1;
}

bool Packing::is_padding(Index row) const {
  const Index b = segment_of(row);
  return row - offsets[b] >= lengths[b];
}

Index Packing::total_groups(Index ratio) const {
  Index total = 0;
  for (Index b = 0; b < segments(); ++b) total += groups(b, ratio);
  return total;
}

Index Packing::max_groups(Index ratio) const {
  Index most = 0;
  for (Index b = 0; b < segments(); ++b) most = std::max(most, groups(b, ratio));
  return most;
}

Status validate(const Packing& packing) {
  const auto& offsets = packing.offsets;
  const auto& lengths = packing.lengths;
  if (offsets.size() != lengths.size() + 1)
    return usage_error("packing/offsets", "has " + std::to_string(offsets.size()) +
                                              " entries, need one more than packing/lengths (" +
                                              std::to_string(lengths.size() + 1) + ")");
  if (offsets.front() != 0)
    return usage_error("packing/offsets", "starts at " + std::to_string(offsets.front()) + ", must start at 0");
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    const std::string segment = "segment " + std::to_string(b);
    if (offsets[b + 1] < offsets[b])
      return usage_error("packing/offsets", "go down from " + std::to_string(offsets[b]) + " to " +
                                                std::to_string(offsets[b + 1]) + " at " + segment +
                                                "; they must never go down");
    const Index physical = offsets[b + 1] - offsets[b];
    if (lengths[b] < 0 || lengths[b] > physical)
      return usage_error("packing/lengths", segment + " has real length " + std::to_string(lengths[b]) +
                                                ", allowed 0.." + std::to_string(physical) + " (its physical length)");
  }
  if (static_cast<Index>(packing.row_valid.size()) != offsets.back())
    return usage_error("packing/row_valid", "has " + std::to_string(packing.row_valid.size()) +
                                                " rows, packing/offsets ends at " + std::to_string(offsets.back()));
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    for (Index row = offsets[b]; row < offsets[b + 1]; ++row) {
      const std::uint8_t valid = packing.row_valid[row];
      if (valid > 1)
        return usage_error("packing/row_valid",
                           "row " + std::to_string(row) + " holds " + std::to_string(valid) + ", allowed 0 or 1");
      if (valid == 1 && row - offsets[b] >= lengths[b])
        return usage_error("packing/row_valid", "row " + std::to_string(row) + " is padding of segment " +
                                                    std::to_string(b) + " but marked valid; padding rows must be 0");
    }
  }
  return {};
}

Packing make_packing(const std::vector<Index>& lengths, Index pad) {
  Packing packing;
  packing.lengths = lengths;
  for (Index length : lengths) {
    const Index physical = (length + pad - 1) / pad * pad;
    packing.offsets.push_back(packing.offsets.back() + physical);
    packing.row_valid.insert(packing.row_valid.end(), length, 1);
    packing.row_valid.insert(packing.row_valid.end(), physical - length, 0);
  }
  return packing;
}

}  // namespace plumbline::contract
