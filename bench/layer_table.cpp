#include "bench/layer_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "reference/contract/presets.hpp"

namespace plumbline::bench {
namespace {

std::string title(const LayerRow& row) {
  return contract::print(row.item) + (row.backward ? " forward+backward" : " forward");
}

}  // namespace

void add_row(std::vector<LayerRow>& rows, LayerRow row) {
  const auto same = std::find_if(rows.begin(), rows.end(), [&](const LayerRow& other) {
    return other.item == row.item && other.backward == row.backward;
  });
  if (same == rows.end())
    rows.push_back(std::move(row));
  else if (row.of_dgemm() > same->of_dgemm())
    *same = std::move(row);
}

std::string speed_table(const std::vector<LayerRow>& rows) {
  if (rows.empty()) return {};
  std::string text = fmt::format("{:<50}{:>9}{:>10}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "layer", "GFLOP", "seconds", "GFLOP/s",
                                 "dgemm", "of it", "by CPU", "peak GiB");
  for (const LayerRow& row : rows) {
    const std::string peak = row.peak_bytes > 0 ? fmt::format("{:.2f}", row.peak_bytes / 0x1p30) : "?";
    text += fmt::format("{:<50}{:>9.4g}{:>10.4g}{:>9.1f}{:>9.1f}{:>8.0f}%{:>8.0f}%{:>9}\n", title(row),
                        row.operations * 1e-9, row.seconds.wall, row.rate() * 1e-9, row.dgemm.per_second * 1e-9,
                        100 * row.of_dgemm(), 100 * row.of_dgemm_by_cpu(), peak);
  }
  return text;
}

std::string memory_table(const std::vector<LayerRow>& rows) {
  std::map<std::string, std::vector<const LayerRow*>> series;
  for (const LayerRow& row : rows) {
    if (row.peak_bytes == 0 || row.item.lengths.size() != 1 || row.item.model == "tiny") continue;
    LayerRow any_length = row;
    any_length.item.lengths = {contract::default_length(row.item.kind, row.item.model)};
    series[title(any_length)].push_back(&row);
  }
  std::string text;
  for (auto& [name, members] : series) {
    std::sort(members.begin(), members.end(),
              [](const LayerRow* a, const LayerRow* b) { return a->item.lengths < b->item.lengths; });
    for (std::size_t i = 1; i < members.size(); ++i) {
      const contract::Index from = members[i - 1]->item.lengths[0], to = members[i]->item.lengths[0];
      text += fmt::format("{:<50}{:>14}{:>14.0f}\n", name, fmt::format("{}..{}", from, to),
                          (members[i]->peak_bytes - members[i - 1]->peak_bytes) / double(to - from) / 1024);
    }
  }
  if (text.empty()) return text;
  return fmt::format("{:<50}{:>14}{:>14}\n", "peak memory a token", "tokens", "KiB a token") + text;
}

}  // namespace plumbline::bench
