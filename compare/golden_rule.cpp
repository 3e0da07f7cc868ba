#include "compare/golden_rule.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "compare/unravel.hpp"
#include "reference/contract/specified.hpp"

namespace plumbline::compare {

using namespace contract;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string name_of(double value) { return std::isnan(value) ? "NaN" : value > 0 ? "Inf" : "-Inf"; }

/// Keeps the entry with the largest error.
void record(DatasetVerdict& v, const Shape& shape, Index element, double error, double got, double want) {
  if (v.worst.empty() || error > v.error) {
    v.error = error;
    v.worst = unravel(element, shape);
    v.got = got;
    v.want = want;
  }
}

/// Errors are in units of the largest finite |want|, or of `floor` if that is larger.
void compare_real(const std::vector<bool>& rows, const Tensor& want, const Tensor& got, double floor,
                  DatasetVerdict& v) {
  const Index width = want.row_size();
  double scale = floor;
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (rows[r])
      for (Index e = static_cast<Index>(r) * width; e < static_cast<Index>(r + 1) * width; ++e)
        if (std::isfinite(want[e])) scale = std::max(scale, std::abs(want[e]));
  const double unit = scale > 0 ? scale : 1;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r]) continue;
    for (Index e = static_cast<Index>(r) * width; e < static_cast<Index>(r + 1) * width; ++e) {
      ++v.compared;
      const double a = got[e], b = want[e];
      double error = std::abs(a - b) / unit;
      if (!std::isfinite(a) || !std::isfinite(b)) {
        const bool same = a == b;
        error = same ? 0 : kInfinity;
        if (!same && v.reason.empty())
          v.reason = std::isfinite(b) ? "holds " + name_of(a) + " where a number is expected"
                                      : name_of(b) + " is expected, a different value found";
      }
      if (!(error <= v.limit)) ++v.wrong;
      record(v, want.shape(), e, error, a, b);
    }
  }
  if (v.wrong > 0 && v.reason.empty()) v.reason = "differs by more than the limit";
}

/// The picks of one row, ascending (NaN last), without the -1 that mean none.
std::vector<double> picks_of(const Tensor& topk, Index row) {
  std::vector<double> picks;
  for (Index k = 0; k < topk.row_size(); ++k)
    if (const double pick = topk.row(row)[k]; pick != -1) picks.push_back(pick);
  std::sort(picks.begin(), picks.end(), [](double a, double b) { return a < b || (!std::isnan(a) && std::isnan(b)); });
  return picks;
}

void compare_selection(const std::vector<bool>& rows, const Tensor& want, const Tensor& got, DatasetVerdict& v) {
  v.limit = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r] || want.row_size() == 0) continue;  // [T, 0] has rows, but nothing in them
    ++v.compared;
    const Index row = static_cast<Index>(r);
    const std::vector<double> a = picks_of(got, row), b = picks_of(want, row);
    if (a == b) continue;
    if (v.wrong++ == 0) {
      v.worst = {row};
      const auto difference = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
      v.got = difference.first == a.end() ? -1 : *difference.first;
      v.want = difference.second == b.end() ? -1 : *difference.second;
      v.reason = "selects other entries";
    }
  }
  v.error = static_cast<double>(v.wrong);
}

void compare_loss(const Problem& problem, const Results& want, const Results& got, const Limits& limits,
                  DatasetVerdict& v) {
  const double a = got.at(v.id)[0], b = want.at(v.id)[0];
  double condition = loss_condition(problem, want);
  std::string note;
  if (condition < 0 && problem.config.indexer) {
    condition = loss_condition(problem, got);
    note = condition < 0 ? "judged relative to itself, as neither side holds teacher and prediction"
                         : "judged with the teacher of the results under test, as the expected ones hold none";
  }
  v.compared = 1;
  v.got = a;
  v.want = b;
  v.limit = limits.loss;
  const double unit = condition > 0 ? condition : std::abs(b);
  v.error = a == b ? 0 : unit > 0 ? std::abs(a - b) / unit : kInfinity;
  if (std::isnan(v.error)) v.error = kInfinity;
  v.reason = note;
  if (v.error <= v.limit) return;
  v.wrong = 1;
  v.reason =
      (std::isfinite(a) ? "differs by more than the limit" : "holds " + name_of(a)) + (note.empty() ? "" : "; " + note);
}

/// The tensor, if it is held and has the shape that the contract gives it.
const Tensor* find_whole(const Problem& problem, const Results& results, StageId stage) {
  const DatasetId id = DatasetId::forward(stage);
  const Tensor* tensor = results.find(id);
  return tensor && tensor->shape() == shape_of(id.axes(), problem.config, problem.packing) ? tensor : nullptr;
}

/// The candidates of a row, as far as the results tell: the picks with the sparse loss, else all that is visible.
std::vector<Index> candidates_of(const Problem& problem, const Tensor* scores, const Tensor* topk, Index row,
                                 Index columns) {
  std::vector<Index> candidates;
  if (problem.config.sparse_loss && topk) {
    for (const double pick : picks_of(*topk, row))
      if (pick >= 0 && pick < static_cast<double>(columns)) candidates.push_back(static_cast<Index>(pick));
  } else {
    for (Index g = 0; g < columns; ++g)
      if (!scores || scores->row(row)[g] != -kInfinity) candidates.push_back(g);
  }
  return candidates;
}

/// log sum_{g in C} exp(score) of one row.
double log_sum_exp(const double* scores, const std::vector<Index>& candidates) {
  double top = -kInfinity, total = 0;
  for (const Index c : candidates) top = std::max(top, scores[c]);
  for (const Index c : candidates) total += std::exp(scores[c] - top);
  return top + std::log(total);
}

/// The least unit in which a dataset's errors are counted.
double unit_floor(const Problem& problem, const Results& want, DatasetId id, const Limits& limits) {
  if (!limits.kl_by_condition || !(id == DatasetId::forward(StageId::kKlRows))) return 0;
  const std::vector<double> rows = kl_conditions(problem, want);
  return rows.empty() ? 0 : *std::max_element(rows.begin(), rows.end());
}

}  // namespace

std::vector<double> kl_conditions(const Problem& problem, const Results& results) {
  const Tensor* teacher = find_whole(problem, results, StageId::kTeacher);
  const Tensor* predict = find_whole(problem, results, StageId::kPredict);
  const Tensor* topk = find_whole(problem, results, StageId::kTopk);
  const Tensor* scores = find_whole(problem, results, StageId::kIndexScores);
  if (problem.config.sparse_loss && !topk) scores = nullptr;
  if (!teacher || (!predict && !scores)) return {};
  std::vector<double> conditions(static_cast<std::size_t>(problem.packing.tokens()), 0.0);
  for (Index row = 0; row < problem.packing.tokens(); ++row) {
    // From the scores where they are held, since a stored prediction may have underflowed.
    const double log_total =
        scores ? log_sum_exp(scores->row(row), candidates_of(problem, scores, topk, row, teacher->row_size())) : 0;
    for (Index g = 0; g < teacher->row_size(); ++g)
      if (const double t = teacher->row(row)[g]; t > 0) {
        const double log_p = scores ? scores->row(row)[g] - log_total : std::log(predict->row(row)[g]);
        if (std::isfinite(log_p))
          conditions[static_cast<std::size_t>(row)] += t * (std::abs(std::log(t)) + std::abs(log_p));
      }
  }
  return conditions;
}

double loss_condition(const Problem& problem, const Results& results) {
  const std::vector<double> rows = kl_conditions(problem, results);
  if (rows.empty() && problem.packing.tokens() > 0) return -1;
  const LayerConfig& c = problem.config;
  const double divisor = c.per_token_loss ? 1 : static_cast<double>(std::max<Index>(problem.packing.valid_rows(), 1));
  return std::abs(c.loss_coeff) * std::accumulate(rows.begin(), rows.end(), 0.0) / divisor;
}

std::vector<DatasetVerdict> compare_by_golden_rule(const Problem& problem, const Results& want, const Results& got,
                                                   const Limits& limits) {
  std::vector<DatasetVerdict> verdicts;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!want.has(id)) continue;
    DatasetVerdict v{.id = id};
    v.limit = id.is_forward() ? limits.forward : limits.gradient;
    if (const Shape shape = shape_of(id.axes(), problem.config, problem.packing); want.at(id).shape() != shape) {
      v.verdict = Verdict::kFail;
      v.error = kInfinity;
      v.reason =
          "is expected with shape " + to_string(want.at(id).shape()) + ", but the problem gives it " + to_string(shape);
    } else if (!got.has(id)) {
      v.reason = "not among the results";
    } else if (got.at(id).shape() != want.at(id).shape()) {
      v.verdict = Verdict::kFail;
      v.error = kInfinity;
      v.reason = "has shape " + to_string(got.at(id).shape()) + ", want " + to_string(want.at(id).shape());
    } else {
      const std::vector<bool> rows = specified_rows(id, problem);
      if (id == DatasetId::forward(StageId::kTopk))
        compare_selection(rows, want.at(id), got.at(id), v);
      else if (id == DatasetId::forward(StageId::kIndexerLoss))
        compare_loss(problem, want, got, limits, v);
      else
        compare_real(rows, want.at(id), got.at(id), unit_floor(problem, want, id, limits), v);
      v.verdict = v.wrong > 0 ? Verdict::kFail : Verdict::kPass;
      if (v.compared == 0) {
        v.verdict = Verdict::kNotCompared;
        v.reason = "has no specified entry";
      }
    }
    verdicts.push_back(std::move(v));
  }
  return verdicts;
}

}  // namespace plumbline::compare
