#include "compare/selection.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "reference/contract/index_math.hpp"

namespace plumbline::compare {

using namespace contract;

namespace {

/// body(row, visible) for each row; visible is -1 for a row without the query role.
template <typename Body>
void for_each_row(const Problem& problem, Body body) {
  const Packing& packing = problem.packing;
  const Index ratio = problem.config.ratio;
  for (Index b = 0; b < packing.segments(); ++b)
    for (Index row = packing.offsets[b]; row < packing.offsets[b + 1]; ++row) {
      const Index t = row - packing.offsets[b];
      body(row, packing.row_valid[row] ? visible_entries(t, ratio, group_count(packing.lengths[b], ratio)) : Index{-1});
    }
}

void blame(SelectionFaults& faults, Index row, std::string reason) {
  if (faults.wrong++ > 0) return;
  faults.first = row;
  faults.reason = std::move(reason);
}

std::vector<Index> legal_picks(const Tensor& picks, Index row, Index visible) {
  std::vector<Index> found;
  for (Index k = 0; k < picks.row_size(); ++k)
    if (const double pick = picks.row(row)[k]; pick >= 0 && pick < static_cast<double>(visible))
      found.push_back(static_cast<Index>(pick));
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<Index> exact_topk(const double* scores, Index visible, Index k) {
  std::vector<Index> order(static_cast<std::size_t>(visible));
  std::iota(order.begin(), order.end(), Index{0});
  const auto key = [&](Index g) {
    return std::isnan(scores[g]) ? -std::numeric_limits<double>::infinity() : scores[g];
  };
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return key(a) > key(b); });
  order.resize(static_cast<std::size_t>(std::min(k, visible)));
  std::sort(order.begin(), order.end());
  return order;
}

std::string text_of(double pick) {
  return pick == std::floor(pick) && std::abs(pick) < 1e15 ? std::to_string(static_cast<long long>(pick))
                                                           : std::to_string(pick);
}

}  // namespace

SelectionFaults check_legality(const Problem& problem, const Tensor& picks) {
  SelectionFaults faults;
  for_each_row(problem, [&](Index row, Index visible) {
    ++faults.rows;
    std::vector<double> held;
    for (Index k = 0; k < picks.row_size(); ++k)
      if (picks.row(row)[k] != -1) held.push_back(picks.row(row)[k]);
    if (visible < 0) {
      if (!held.empty()) blame(faults, row, "picks entry " + text_of(held[0]) + " although the row has no query role");
      return;
    }
    for (const double pick : held)
      if (!(pick >= 0 && pick < static_cast<double>(visible)) || pick != std::floor(pick))
        return blame(faults, row, "picks entry " + text_of(pick) + ", visible are " + std::to_string(visible));
    std::sort(held.begin(), held.end());
    if (std::adjacent_find(held.begin(), held.end()) != held.end())
      return blame(faults, row, "picks entry " + text_of(*std::adjacent_find(held.begin(), held.end())) + " twice");
    const Index wanted = std::min(problem.config.index_topk, visible);
    if (static_cast<Index>(held.size()) != wanted)
      blame(faults, row, "picks " + std::to_string(held.size()) + " entries, want " + std::to_string(wanted));
  });
  return faults;
}

SelectionFaults check_own_scores(const Problem& problem, const Tensor& picks, const Tensor& scores) {
  SelectionFaults faults;
  for_each_row(problem, [&](Index row, Index visible) {
    if (visible < 0) return;
    ++faults.rows;
    const std::vector<Index> got = legal_picks(picks, row, visible);
    const std::vector<Index> want = exact_topk(scores.row(row), visible, problem.config.index_topk);
    if (got == want) return;
    const auto difference = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
    const Index place = difference.second == want.end() ? want.back() : *difference.second;
    blame(faults, row, "is not the top-k of the scores beside it: lacks entry " + std::to_string(place));
  });
  return faults;
}

SelectionFaults check_swaps(const Problem& problem, const Tensor& picks, const Tensor& true_scores,
                            const Tensor& score_budgets) {
  SelectionFaults faults;
  for_each_row(problem, [&](Index row, Index visible) {
    if (visible < 0) return;
    ++faults.rows;
    const std::vector<Index> got = legal_picks(picks, row, visible);
    const std::vector<Index> want = exact_topk(true_scores.row(row), visible, problem.config.index_topk);
    if (got == want) return;
    const double *s = true_scores.row(row), *b = score_budgets.row(row);
    std::vector<Index> taken, dropped;
    std::set_difference(got.begin(), got.end(), want.begin(), want.end(), std::back_inserter(taken));
    std::set_difference(want.begin(), want.end(), got.begin(), got.end(), std::back_inserter(dropped));
    for (const Index g : taken)
      for (const Index d : dropped)
        if (s[d] - s[g] > b[d] + b[g])
          return blame(faults, row,
                       "picks entry " + std::to_string(g) + " before entry " + std::to_string(d) +
                           ", whose score is larger by " + std::to_string((s[d] - s[g]) / (b[d] + b[g])) +
                           " of what both may err");
    ++faults.swapped;
  });
  return faults;
}

}  // namespace plumbline::compare
