#pragma once
#include <cmath>
#include <limits>
#include <vector>

#include "tests/layer_runs.hpp"

namespace plumbline::tests {

using Wide = long double;

/// Attention and the indexer's teacher of one query row, written out from their definition on tapped stages: key by
/// key, in long double, all shares as logarithms.
struct NaiveRow {
  std::vector<Wide> lse;                    ///< [H]
  std::vector<std::vector<Wide>> attn_out;  ///< [H][D]
  std::vector<Index> candidates;
  std::vector<Wide> teacher, predict;  ///< of each candidate
  Wide kl = 0;
};

inline Wide log_sum_exp(const std::vector<Wide>& terms) {
  constexpr Wide kNone = -std::numeric_limits<Wide>::infinity();
  Wide top = kNone;
  for (const Wide term : terms) top = std::max(top, term);
  if (std::isinf(top)) return top;
  Wide total = 0;
  for (const Wide term : terms) total += std::exp(term - top);
  return top + std::log(total);
}

class NaiveAttention {
 public:
  NaiveAttention(const Problem& problem, const Results& taps) : problem_(problem), taps_(taps) {}

  NaiveRow row(Index row) const {
    const LayerConfig& c = problem_.config;
    const Index b = problem_.packing.segment_of(row), offset = problem_.packing.offsets[static_cast<std::size_t>(b)];
    const Index t = row - offset, visible = visible_entries(t, c.ratio, problem_.packing.groups(b, c.ratio));
    Index first_entry = 0;
    for (Index s = 0; s < b; ++s) first_entry += problem_.packing.groups(s, c.ratio);

    std::vector<const double*> window, picks, candidates;
    NaiveRow result;
    for (Index s = std::max(Index{0}, t - c.window + 1); s <= t; ++s)
      window.push_back(taps_.at(DatasetId::forward(StageId::kKv)).row(offset + s));
    const auto entry = [&](Index g) {
      return taps_.at(DatasetId::forward(StageId::kCompressedKv)).row(first_entry + g);
    };
    std::vector<Index> picked;
    for (Index g = 0; g < visible; ++g)
      if (!c.indexer || is_picked(row, g)) picked.push_back(g);
    for (const Index g : picked) picks.push_back(entry(g));
    if (c.indexer)
      for (Index g = 0; g < visible; ++g)
        if (!c.sparse_loss || is_picked(row, g)) result.candidates.push_back(g);
    for (const Index g : result.candidates) candidates.push_back(entry(g));

    std::vector<std::vector<Wide>> shares;  // ln p of each head and candidate
    for (Index h = 0; h < c.heads; ++h) {
      const std::vector<Wide> zw = logits(row, h, window), zp = logits(row, h, picks), zc = logits(row, h, candidates);
      const Wide sink = problem_.weight(WeightId::kAttnSink)[h];
      result.lse.push_back(log_sum_exp(joined({{sink}, zw, zp})));
      result.attn_out.emplace_back(static_cast<std::size_t>(c.head_dim), Wide(0));
      add_values(result.attn_out.back(), window, zw, result.lse.back());
      add_values(result.attn_out.back(), picks, zp, result.lse.back());
      const Wide total = log_sum_exp(c.teacher == Teacher::kFull ? joined({{sink}, zw, zc}) : zc);
      shares.emplace_back();
      for (const Wide z : zc) shares.back().push_back(std::isinf(total) ? -total : z - total);
    }
    fill_loss(row, shares, result);
    return result;
  }

 private:
  bool is_picked(Index row, Index g) const {
    const Tensor& topk = taps_.at(DatasetId::forward(StageId::kTopk));
    return std::find(topk.row(row), topk.row(row) + topk.row_size(), double(g)) != topk.row(row) + topk.row_size();
  }
  static std::vector<Wide> joined(const std::vector<std::vector<Wide>>& parts) {
    std::vector<Wide> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  std::vector<Wide> logits(Index row, Index head, const std::vector<const double*>& keys) const {
    const Index dim = problem_.config.head_dim;
    const double* q = taps_.at(DatasetId::forward(StageId::kQ)).row(row) + head * dim;
    std::vector<Wide> z;
    for (const double* key : keys) {
      Wide product = 0;
      for (Index c = 0; c < dim; ++c) product += Wide(q[c]) * Wide(key[c]);
      z.push_back(product / std::sqrt(Wide(dim)));
    }
    return z;
  }
  static void add_values(std::vector<Wide>& out, const std::vector<const double*>& keys, const std::vector<Wide>& z,
                         Wide lse) {
    for (std::size_t k = 0; k < keys.size() && !std::isinf(lse); ++k)
      for (std::size_t c = 0; c < out.size(); ++c) out[c] += std::exp(z[k] - lse) * Wide(keys[k][c]);
  }
  void fill_loss(Index row, const std::vector<std::vector<Wide>>& shares, NaiveRow& result) const {
    std::vector<Wide> mass, scores;
    for (std::size_t g = 0; g < result.candidates.size(); ++g) {
      std::vector<Wide> over_heads;
      for (const auto& share : shares) over_heads.push_back(share[g]);
      mass.push_back(log_sum_exp(over_heads));
      scores.push_back(taps_.at(DatasetId::forward(StageId::kIndexScores)).row(row)[result.candidates[g]]);
    }
    const Wide total = log_sum_exp(mass), score_total = log_sum_exp(scores);
    for (std::size_t g = 0; g < mass.size(); ++g) {
      result.predict.push_back(std::exp(scores[g] - score_total));
      result.teacher.push_back(std::isinf(total) ? Wide(0) : std::exp(mass[g] - total));
      if (result.teacher.back() > 0)
        result.kl += result.teacher.back() * ((mass[g] - total) - (scores[g] - score_total));
    }
  }

  const Problem& problem_;
  const Results& taps_;
};

/// attn_lse, attn_out, teacher, predict and kl_rows of every valid row against the naive ones, within `limit` of each
/// dataset's largest value (kl_rows: of 1, or more where it is larger).
inline void expect_naive_attention(const Problem& problem, const Results& results, double limit) {
  const NaiveAttention naive(problem, results);
  const LayerConfig& c = problem.config;
  Results want;
  for (const StageId id :
       {StageId::kAttnLse, StageId::kAttnOut, StageId::kTeacher, StageId::kPredict, StageId::kKlRows})
    if (const Tensor* tensor = results.find(DatasetId::forward(id)))
      want.set(DatasetId::forward(id), Tensor(tensor->shape()));
  for (const Index row : real_rows(problem.packing)) {
    if (!is_valid(problem, row)) continue;
    const NaiveRow expected = naive.row(row);
    for (Index h = 0; h < c.heads; ++h) {
      want.at(DatasetId::forward(StageId::kAttnLse)).row(row)[h] = double(expected.lse[static_cast<std::size_t>(h)]);
      for (Index d = 0; d < c.head_dim; ++d)
        want.at(DatasetId::forward(StageId::kAttnOut)).row(row)[h * c.head_dim + d] =
            double(expected.attn_out[static_cast<std::size_t>(h)][static_cast<std::size_t>(d)]);
    }
    for (std::size_t g = 0; g < expected.candidates.size(); ++g) {
      want.at(DatasetId::forward(StageId::kTeacher)).row(row)[expected.candidates[g]] = double(expected.teacher[g]);
      want.at(DatasetId::forward(StageId::kPredict)).row(row)[expected.candidates[g]] = double(expected.predict[g]);
    }
    if (c.indexer) {
      want.at(DatasetId::forward(StageId::kKlRows))[row] = double(expected.kl);
      EXPECT_NEAR(results.at(DatasetId::forward(StageId::kKlRows))[row], double(expected.kl),
                  limit * std::max(1.0, double(expected.kl)));
    }
  }
  want.erase(DatasetId::forward(StageId::kKlRows));
  EXPECT_TRUE(close(want, results, limit));
}

}  // namespace plumbline::tests
