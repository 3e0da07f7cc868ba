#include "tools/plumbline/bench_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace plumbline::tools {

Summary summarise(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto quantile = [&](double fraction) {
    const double at = fraction * static_cast<double>(values.size() - 1);
    const auto below = static_cast<std::size_t>(at);
    const std::size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], at - static_cast<double>(below));
  };
  return {quantile(0.5), values.front(), values.back(), quantile(0.25), quantile(0.75)};
}

std::vector<double> round_ratios(const std::vector<double>& values, const std::vector<double>& baseline) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(values.size(), baseline.size()); ++i)
    if (baseline[i] > 0) ratios.push_back(values[i] / baseline[i]);
  return ratios;
}

bool has_grown(const Summary& before, const Summary& now) {
  return now.median - before.median > before.width() + now.width();
}

}  // namespace plumbline::tools
