#include "compare/gate.hpp"

#include <algorithm>
#include <cmath>

namespace plumbline::compare {

namespace {

/// body(element) for every element of the rows that count.
template <typename Body>
void for_each_element(const std::vector<bool>& rows, const Tensor& tensor, Body body) {
  const Index width = tensor.row_size();
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (rows[r])
      for (Index e = static_cast<Index>(r) * width; e < static_cast<Index>(r + 1) * width; ++e) body(e);
}

struct Group {
  double error = 0, budget = 0, ulp = 0;
  Index count = 0, first = -1;

  void add(Index element, double e, double b, double u) {
    error += e * e;
    budget += b * b;
    ulp += u * u;
    if (count++ == 0) first = element;
  }
};

/// body(group) for every row and channel that is large enough.
template <typename Body>
void for_each_group(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget,
                    contract::NumberFormat stored, Body body) {
  if (truth.shape().empty()) return;
  const Index width = truth.shape().back();
  std::vector<Group> channels(static_cast<std::size_t>(width));
  Group row;
  const auto finish = [&](const Group& group) {
    if (group.count >= kSmallestGroup && group.error > 0) body(group);
  };
  for_each_element(rows, truth, [&](Index e) {
    if (e % width == 0) {
      finish(row);
      row = {};
    }
    const double error = got[e] - truth[e];
    if (!std::isfinite(error) || !(budget[e] >= kSmallestBudget)) return;
    const double u = contract::ulp(stored, truth[e]);
    row.add(e, error, budget[e], u);
    channels[static_cast<std::size_t>(e % width)].add(e, error, budget[e], u);
  });
  finish(row);
  if (truth.rank() > 1)
    for (const Group& channel : channels) finish(channel);
}

}  // namespace

double largest_of(Index n) { return std::sqrt(2 * std::log(static_cast<double>(std::max<Index>(n, 1)) / kAlarm)); }

double Deviation::rms() const { return elements > 0 ? std::sqrt(sum_of_squares / static_cast<double>(elements)) : 0; }

Deviation measure_deviation(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got,
                            const Tensor& budget) {
  Deviation d;
  for_each_element(rows, truth, [&](Index e) {
    ++d.elements;
    const double y = got[e], want = truth[e], b = budget[e];
    const bool scaled = b >= kSmallestBudget && std::isfinite(want);
    d.scaled += scaled;
    if (std::isnan(want) && std::isnan(y)) return;
    if (y == want) return;
    if (!std::isfinite(y) || !std::isfinite(want) || !(b > 0)) {
      if (d.pattern_errors++ == 0) d.worst = e;
      return;
    }
    const double share = std::abs(y - want) / b;
    d.sum_of_squares += share * share;
    if (scaled) {
      d.scaled_largest = std::max(d.scaled_largest, share);
      d.scaled_squares += share * share;
    }
    if (share > d.largest) {
      d.largest = share;
      if (d.pattern_errors == 0) d.worst = e;
    }
  });
  return d;
}

bool Kappa::usable() const {
  return elements >= kSmallestGroup && rms > 0 && largest <= kScaleLimit * kTailFactor * largest_of(elements) * rms;
}

double Kappa::element_limit() const {
  return std::max(kTailFactor * largest_of(elements) * rms, kExtremeFactor * largest);
}

double Kappa::group_limit() const { return std::max(kGroupFactor * rms, kExtremeFactor * largest_group); }

Share ensemble_share(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget,
                     const Kappa& kappa, contract::NumberFormat stored) {
  const double factor = kappa.element_limit();
  Share share;
  for_each_element(rows, truth, [&](Index e) {
    const double error = std::abs(got[e] - truth[e]);
    if (!(error > 0) || !std::isfinite(error) || !(budget[e] >= kSmallestBudget)) return;
    const double value = error / (factor * budget[e] + contract::ulp(stored, truth[e]));
    if (value > share.value) share = {value, e, 0, 0};
  });
  return share;
}

Share group_share(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget,
                  const Kappa& kappa, contract::NumberFormat stored) {
  const double factor = kappa.group_limit();
  Share share;
  for_each_group(rows, truth, got, budget, stored, [&](const Group& group) {
    const double n = static_cast<double>(group.count), rms = std::sqrt(group.error / n);
    const double allowed = factor * std::sqrt(group.budget / n) + 0.5 * std::sqrt(group.ulp / n);
    if (rms / allowed > share.value) share = {rms / allowed, group.first, rms, allowed};
  });
  return share;
}

double largest_group(const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget) {
  double largest = 0;
  for_each_group(rows, truth, got, budget, contract::NumberFormat::kFp64,
                 [&](const Group& group) { largest = std::max(largest, std::sqrt(group.error / group.budget)); });
  return largest;
}

}  // namespace plumbline::compare
