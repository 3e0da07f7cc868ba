#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/contract/index_math.hpp"
#include "reference/contract/problem.hpp"
#include "reference/contract/results.hpp"

namespace plumbline::tests {

/// What one query attends to, computed in double precision from the stages that a run holds, so that a fault in it can
/// be made by hand. `results` must outlive it.
struct AttendedQuery {
  contract::Index row = 0, heads = 0, dim = 0;
  std::vector<const double*> keys;     ///< of the window, then of the entries
  std::vector<std::vector<double>> z;  ///< [heads][keys], logits
  std::vector<double> sink;

  double lse(contract::Index head) const { return lse_of(head, sink[static_cast<std::size_t>(head)]); }
  double lse_without_sink(contract::Index head) const { return lse_of(head, -std::numeric_limits<double>::infinity()); }
  std::vector<double> all_lse() const {
    std::vector<double> all;
    for (contract::Index h = 0; h < heads; ++h) all.push_back(lse(h));
    return all;
  }
  /// [heads][keys]
  std::vector<std::vector<double>> probabilities() const {
    std::vector<std::vector<double>> p = z;
    for (contract::Index h = 0; h < heads; ++h) {
      const double total = lse(h);
      for (double& value : p[static_cast<std::size_t>(h)]) value = std::exp(value - total);
    }
    return p;
  }
  /// attn_out, [heads][dim]
  std::vector<double> out() const {
    const auto p = probabilities();
    std::vector<double> sum(static_cast<std::size_t>(heads * dim));
    for (contract::Index h = 0; h < heads; ++h)
      for (std::size_t j = 0; j < keys.size(); ++j)
        for (contract::Index d = 0; d < dim; ++d)
          sum[static_cast<std::size_t>(h * dim + d)] += p[static_cast<std::size_t>(h)][j] * keys[j][d];
    return sum;
  }
  AttendedQuery without_key(contract::Index key) const {
    AttendedQuery rest = *this;
    rest.keys.erase(rest.keys.begin() + key);
    for (std::vector<double>& logits : rest.z) logits.erase(logits.begin() + key);
    return rest;
  }
  /// What an online softmax makes of attn_out that does not rescale what it has of its first `tile` keys when a later
  /// key raises the maximum.
  std::vector<double> out_without_rescale(std::size_t tile) const {
    std::vector<double> sum = out();
    for (contract::Index h = 0; h < heads; ++h) {
      const std::vector<double>& logits = z[static_cast<std::size_t>(h)];
      const auto middle = logits.begin() + static_cast<std::ptrdiff_t>(std::min(tile, logits.size()));
      if (middle == logits.end()) continue;
      const double first = *std::max_element(logits.begin(), middle), rest = *std::max_element(middle, logits.end());
      if (rest <= first) continue;
      const double total = lse(h);
      // exp(first - rest) is missing: they weigh exp(z - first) over a sum that is right.
      for (std::size_t j = 0; j < tile; ++j) {
        const double wrong = std::exp(logits[j] - total + (rest - first)), right = std::exp(logits[j] - total);
        for (contract::Index d = 0; d < dim; ++d)
          sum[static_cast<std::size_t>(h * dim + d)] += (wrong - right) * keys[j][d];
      }
    }
    return sum;
  }

 private:
  double lse_of(contract::Index head, double beside) const {
    const std::vector<double>& logits = z[static_cast<std::size_t>(head)];
    const double top = std::max(beside, *std::max_element(logits.begin(), logits.end()));
    double total = std::exp(beside - top);
    for (const double value : logits) total += std::exp(value - top);
    return top + std::log(total);
  }
};

/// For a batch of one segment without padding.
inline AttendedQuery attended_query(const contract::Problem& problem, const contract::Results& results,
                                    contract::Index row) {
  using namespace contract;
  const LayerConfig& c = problem.config;
  const auto stage = [&](StageId id) -> const Tensor& { return results.at(DatasetId::forward(id)); };
  AttendedQuery query{row, c.heads, c.head_dim, {}, {}, {}};
  for (Index j = window_begin(row, c.window); j <= row; ++j) query.keys.push_back(stage(StageId::kKv).row(j));
  if (c.indexer) {
    const Tensor& picks = stage(StageId::kTopk);
    for (Index k = 0; k < picks.row_size(); ++k)
      if (picks.row(row)[k] >= 0)
        query.keys.push_back(stage(StageId::kCompressedKv).row(static_cast<Index>(picks.row(row)[k])));
  } else if (c.ratio > 1) {
    for (Index g = 0; g < visible_entries(row, c.ratio, problem.packing.groups(0, c.ratio)); ++g)
      query.keys.push_back(stage(StageId::kCompressedKv).row(g));
  }
  const double* q = stage(StageId::kQ).row(row);
  for (Index h = 0; h < c.heads; ++h) {
    query.sink.push_back(problem.weight(WeightId::kAttnSink)[h]);
    std::vector<double>& z = query.z.emplace_back();
    for (const double* key : query.keys) {
      double dot = 0;
      for (Index d = 0; d < c.head_dim; ++d) dot += q[h * c.head_dim + d] * key[d];
      z.push_back(dot / std::sqrt(static_cast<double>(c.head_dim)));
    }
  }
  return query;
}

}  // namespace plumbline::tests
