#pragma once
#include <vector>

namespace plumbline::tools {

/// How measurements of one thing scatter, in their own unit; all 0 of no measurement.
struct Summary {
  double median = 0, min = 0, max = 0;
  double lower = 0, upper = 0;  ///< quartiles

  /// Half of all measurements lie within it: upper - lower.
  double width() const { return upper - lower; }
  /// width / median; 0 where the median is.
  double spread() const { return median > 0 ? width() / median : 0; }
};

/// Quantiles between two measurements are interpolated linearly.
Summary summarise(std::vector<double> values);

/// values[i] / baseline[i], of the rounds that both have: what disturbs a round disturbs both.
std::vector<double> round_ratios(const std::vector<double>& values, const std::vector<double>& baseline);

/// Whether a ratio has grown from one report to the next by more than both scatter: its median by more than the widths
/// of both together.
bool has_grown(const Summary& before, const Summary& now);

}  // namespace plumbline::tools
