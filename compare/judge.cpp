#include "compare/judge.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "compare/unravel.hpp"
#include "reference/budget/layer_budget.hpp"
#include "reference/contract/specified.hpp"
#include "reference/emulate.hpp"
#include "reference/isolate.hpp"

namespace plumbline::compare {

using namespace contract;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr DatasetId kTopk = DatasetId::forward(StageId::kTopk);
constexpr DatasetId kScores = DatasetId::forward(StageId::kIndexScores);

/// A candidate's stages with truth and budgets of each.
struct Evaluation {
  Results truth, budgets;
};

Results selections_of(const Results& results) {
  Results only;
  if (const Tensor* picks = results.find(kTopk)) only.set(kTopk, *picks);
  return only;
}

/// Everything on the candidate's own inputs.
Result<Evaluation> evaluate_isolated(const Problem& problem, const PrecisionProfile& profile, const Results& candidate,
                                     const Request& request) {
  auto isolated = reference::run_isolated(problem, candidate, request);
  if (!isolated) return isolated.error();
  auto budgets = reference::run_budgets(problem, profile, isolated->values, candidate.available(), request);
  if (!budgets) return budgets.error();
  return Evaluation{std::move(isolated->truth), std::move(budgets->budgets)};
}

/// From the case's inputs on, but with the candidate's selections.
Result<Evaluation> evaluate_chained(const Truth& truth, const PrecisionProfile& profile, const Results& candidate) {
  const Results picks = selections_of(candidate);
  if (!picks.has(kTopk) || equal_bits(picks.at(kTopk), truth.values.at(kTopk)))
    return Evaluation{truth.values, truth.budgets};
  return evaluate_isolated(truth.problem, profile, picks, truth.request);
}

bool is_judged_by_size(DatasetId id) { return !(id == kTopk); }

void add(Kappa& kappa, const std::vector<bool>& rows, const Tensor& truth, const Tensor& got, const Tensor& budget) {
  const Deviation d = measure_deviation(rows, truth, got, budget);
  // rms and elements hold sums over the members until the ensemble is complete.
  kappa.rms += d.scaled_squares;
  kappa.elements += d.scaled;
  kappa.least_rms = kappa.most_rms > 0 ? std::min(kappa.least_rms, d.rms()) : d.rms();
  kappa.most_rms = std::max(kappa.most_rms, d.rms());
  kappa.largest = std::max(kappa.largest, d.pattern_errors > 0 ? kInfinity : d.scaled_largest);
  kappa.largest_group = std::max(kappa.largest_group, largest_group(rows, truth, got, budget));
}

void finish(Kappa& kappa, int members) {
  kappa.rms = kappa.elements > 0 ? std::sqrt(kappa.rms / static_cast<double>(kappa.elements)) : 0;
  kappa.elements /= std::max(members, 1);
}

/// The first members are the extremes of what the profile permits, the others are drawn.
reference::EmulationVariant member_variant(std::uint64_t seed, int member) {
  reference::EmulationVariant variant =
      reference::draw_variant(seed * 1000003 + static_cast<std::uint64_t>(member) + 1);
  if (member >= 4) return variant;
  variant.casts.reset();
  if (member % 2 == 0) variant.casts.flip();
  variant.store_rounded = member < 2;
  return variant;
}

/// Gradients behind the indexer's ReLU. An input of it that may have either sign has two right derivatives; the gap is
/// in the budget as a whole, whatever kappa is.
bool is_behind_relu(DatasetId id) {
  if (!id.is_gradient()) return false;
  if (const auto stage = id.stage())
    return *stage == StageId::kIndexQ || *stage == StageId::kIndexK || *stage == StageId::kIndexPooled;
  if (const auto weight = id.weight())
    return info(*weight).presence == Presence::kIndexer && *weight != WeightId::kIndexerWeightsProj;
  return false;
}

Result<Ensemble> measure_ensemble(const Truth& truth, const PrecisionProfile& profile, const JudgeOptions& options) {
  Ensemble ensemble;
  ensemble.members = options.members;
  for (int m = 0; m < options.members; ++m) {
    const reference::EmulationVariant variant = member_variant(options.seed, m);
    auto member = reference::run_emulated(truth.problem, truth.request, profile, variant);
    if (!member) return member.error();
    auto isolated = evaluate_isolated(truth.problem, profile, *member, truth.request);
    if (!isolated) return isolated.error();
    auto chained = evaluate_chained(truth, profile, *member);
    if (!chained) return chained.error();
    for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
      const DatasetId id = DatasetId::from_index(i);
      if (!member->has(id) || !is_judged_by_size(id)) continue;
      const std::vector<bool> rows = specified_rows(id, truth.problem);
      add(ensemble.isolated[i], rows, isolated->truth.at(id), member->at(id), isolated->budgets.at(id));
      add(ensemble.chained[i], rows, chained->truth.at(id), member->at(id), chained->budgets.at(id));
    }
  }
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    finish(ensemble.isolated[i], options.members);
    finish(ensemble.chained[i], options.members);
  }
  return ensemble;
}

/// Which indices of each axis occur.
class WrongPlaces {
 public:
  explicit WrongPlaces(const Shape& shape) {
    for (const Index extent : shape) hit_.emplace_back(static_cast<std::size_t>(extent), false);
  }
  void add(const std::vector<Index>& index) {
    for (std::size_t axis = 0; axis < index.size(); ++axis) hit_[axis][static_cast<std::size_t>(index[axis])] = true;
  }
  std::vector<std::vector<Index>> indices() const {
    std::vector<std::vector<Index>> all;
    for (const std::vector<bool>& axis : hit_) {
      all.emplace_back();
      for (std::size_t i = 0; i < axis.size(); ++i)
        if (axis[i]) all.back().push_back(static_cast<Index>(i));
    }
    return all;
  }

 private:
  std::vector<std::vector<bool>> hit_;
};

void point_at(DatasetJudgement& j, Index element, const Tensor& truth, const Tensor& got, double allowed,
              NumberFormat stored) {
  if (element < 0) return;
  j.worst = unravel(element, truth.shape());
  j.got = got[element];
  j.want = truth[element];
  j.allowed = allowed;
  const double unit = ulp(stored, j.want);
  j.ulps = unit > 0 && std::isfinite(j.got) ? std::abs(j.got - j.want) / unit : 0;
}

std::string name_of(double value) {
  return std::isnan(value) ? "NaN" : std::isinf(value) ? (value > 0 ? "Inf" : "-Inf") : "a number";
}

/// Isolated gates of one dataset by size.
void judge_isolated(DatasetJudgement& j, const std::vector<bool>& rows, const Tensor& truth, const Tensor& got,
                    const Tensor& budget, const Kappa& kappa, NumberFormat stored) {
  const Deviation d = measure_deviation(rows, truth, got, budget);
  j.elements = d.elements;
  j.bound = d.largest;
  j.rms = d.rms();
  if (kappa.least_rms > 0) j.rms_spread = kappa.most_rms / kappa.least_rms;
  if (d.elements == 0) return;
  j.verdict = StageVerdict::kPass;
  if (d.pattern_errors > 0) {
    j.gate = Gate::kPattern;
    j.isolated = kInfinity;
    j.wrong = d.pattern_errors;
    point_at(j, d.worst, truth, got, 0, stored);
    j.reason = std::isfinite(j.got) && std::isfinite(j.want)
                   ? "is fixed by the contract, and another number stands there"
                   : "holds " + name_of(j.got) + " where " +
                         (std::isfinite(j.want) ? std::string("a number") : name_of(j.want)) + " is expected";
    return;
  }
  j.gate = Gate::kBound;
  j.isolated = d.largest;
  Index worst = d.worst;
  double limit_factor = 1;
  if (kappa.usable()) {
    const Share single = ensemble_share(rows, truth, got, budget, kappa, stored);
    const Share group = group_share(rows, truth, got, budget, kappa, stored);
    if (single.value > j.isolated) {
      j.gate = Gate::kEnsemble;
      j.isolated = single.value;
      worst = single.element;
      limit_factor = kappa.element_limit();
    }
    if (group.value > j.isolated) {
      j.gate = Gate::kGroup;
      j.isolated = group.value;
      worst = group.element;
    }
  }
  point_at(j, worst, truth, got, worst >= 0 ? limit_factor * budget[worst] : 0, stored);
  WrongPlaces places(truth.shape());
  const Index width = truth.row_size();
  for (std::size_t r = 0; r < rows.size(); ++r)
    for (Index e = static_cast<Index>(r) * width; rows[r] && e < static_cast<Index>(r + 1) * width; ++e) {
      const double limit =
          kappa.usable() ? std::min(budget[e], kappa.element_limit() * budget[e] + ulp(stored, truth[e])) : budget[e];
      if (!std::isfinite(truth[e]) || std::abs(got[e] - truth[e]) <= limit) continue;
      ++j.wrong;
      places.add(unravel(e, truth.shape()));
    }
  j.wrong_at = places.indices();
}

/// Share of the chained ensemble gates; 0 where correct implementations have no scale.
double judge_chained(DatasetId id, const std::vector<bool>& rows, const Tensor& truth, const Tensor& got,
                     const Tensor& budget, const Kappa& kappa, NumberFormat stored) {
  const Deviation d = measure_deviation(rows, truth, got, budget);
  if (d.pattern_errors > 0) return kInfinity;
  if (!kappa.usable()) return 0;
  if (is_behind_relu(id)) return d.largest / (kChainedSlack * std::max(1.0, kExtremeFactor * kappa.largest));
  return std::max(ensemble_share(rows, truth, got, budget, kappa, stored).value,
                  group_share(rows, truth, got, budget, kappa, stored).value) /
         kChainedSlack;
}

void judge_selection(DatasetJudgement& j, const Truth& truth, const PrecisionProfile& profile, const Results& candidate,
                     const Evaluation& isolated) {
  const Tensor& picks = candidate.at(kTopk);
  std::vector<SelectionFaults> checks = {check_legality(truth.problem, picks)};
  if (const Tensor* scores = candidate.find(kScores)) {
    if (profile.stored(kScores) == profile.compute) {
      checks.push_back(check_own_scores(truth.problem, picks, *scores));
    } else {
      // It may have chosen by scores that it then stored rounded.
      Tensor rounding(scores->shape());
      for (Index e = 0; e < scores->size(); ++e)
        rounding[e] = std::isfinite((*scores)[e]) ? unit_roundoff(profile.stored(kScores)) * std::abs((*scores)[e]) : 0;
      checks.push_back(check_swaps(truth.problem, picks, *scores, rounding));
    }
  } else {
    checks.push_back(check_swaps(truth.problem, picks, isolated.truth.at(kScores), isolated.budgets.at(kScores)));
  }
  if (truth.values.has(kScores))
    checks.push_back(check_swaps(truth.problem, picks, truth.values.at(kScores), truth.budgets.at(kScores)));
  j.elements = checks[0].rows;
  j.gate = Gate::kSelection;
  j.verdict = j.elements > 0 ? StageVerdict::kPass : StageVerdict::kNotJudged;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    if (checks[i].wrong == 0) continue;
    const bool chained = i == 2;  // against the true scores: may come from wrong scores
    (chained ? j.chained : j.isolated) = kInfinity;
    if (j.wrong > 0) continue;
    j.wrong = checks[i].wrong;
    j.worst = {checks[i].first};
    j.reason = checks[i].reason;
  }
}

/// A candidate may hold anything as the score of an entry that the query cannot see.
Tensor visible_scores(const Tensor& scores, const Tensor& truth) {
  Tensor cleaned = scores;
  for (Index e = 0; e < truth.size(); ++e)
    if (truth[e] == -kInfinity) cleaned[e] = -kInfinity;
  return cleaned;
}

bool exceeds(double share) { return !(share <= 1); }

}  // namespace

std::string_view to_string(Gate gate) {
  switch (gate) {
    case Gate::kNone: return "none";
    case Gate::kPattern: return "pattern";
    case Gate::kBound: return "bound";
    case Gate::kEnsemble: return "ensemble";
    case Gate::kGroup: return "group";
    case Gate::kSelection: return "selection";
    case Gate::kGolden: return "golden";
  }
  return "";
}

std::string_view to_string(StageVerdict verdict) {
  switch (verdict) {
    case StageVerdict::kPass: return "pass";
    case StageVerdict::kFail: return "FAIL";
    case StageVerdict::kInherited: return "inherited";
    case StageVerdict::kNotJudged: return "not judged";
  }
  return "";
}

Result<Truth> make_truth(const Problem& problem, const PrecisionProfile& profile, const JudgeOptions& options) {
  Truth truth;
  truth.problem = round_problem(problem, profile);
  truth.request.wanted = options.wanted.any() ? options.wanted : all_datasets(problem.config);
  truth.request.wanted.set(kTopk.index());
  truth.request.wanted.set(kScores.index());
  truth.request.cancelled = options.cancelled;
  auto own = reference::run_isolated(truth.problem, {}, truth.request);
  if (!own) return own.error();
  truth.values = std::move(own->truth);
  auto chained = evaluate_isolated(truth.problem, profile, selections_of(truth.values), truth.request);
  if (!chained) return chained.error();
  truth.budgets = std::move(chained->budgets);
  auto ensemble = measure_ensemble(truth, profile, options);
  if (!ensemble) return ensemble.error();
  truth.ensemble = *ensemble;
  return truth;
}

Result<Judgement> judge(const Truth& truth, const PrecisionProfile& profile, const Results& held) {
  Results candidate = held;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (!candidate.has(id)) continue;
    const Shape shape = shape_of(id.axes(), truth.problem.config, truth.problem.packing);
    if (candidate.at(id).shape() != shape)
      return file_error(id.path(), "has shape " + contract::to_string(candidate.at(id).shape()) + ", want " +
                                       contract::to_string(shape));
  }
  if (Tensor* scores = candidate.find(kScores)) *scores = visible_scores(*scores, truth.values.at(kScores));
  auto isolated = evaluate_isolated(truth.problem, profile, candidate, truth.request);
  if (!isolated) return isolated.error();
  auto chained = evaluate_chained(truth, profile, candidate);
  if (!chained) return chained.error();

  Judgement result;
  bool upstream_wrong = false;
  for (const DatasetId id : computation_order()) {
    if (!candidate.has(id) || !truth.request.wants(id) || !id.exists(truth.problem.config)) continue;
    DatasetJudgement j(id);
    if (id == kTopk) {
      if (truth.problem.config.indexer) judge_selection(j, truth, profile, candidate, *isolated);
    } else {
      const std::vector<bool> rows = specified_rows(id, truth.problem);
      judge_isolated(j, rows, isolated->truth.at(id), candidate.at(id), isolated->budgets.at(id),
                     truth.ensemble.isolated[id.index()], profile.stored(id));
      if (j.elements > 0)
        j.chained = judge_chained(id, rows, chained->truth.at(id), candidate.at(id), chained->budgets.at(id),
                                  truth.ensemble.chained[id.index()], profile.stored(id));
    }
    for (const DatasetId input : direct_inputs(id))
      if (input.exists(truth.problem.config) && !candidate.has(input)) j.composite_of.push_back(input.path());
    if (j.verdict == StageVerdict::kPass) {
      if (exceeds(j.isolated) || (exceeds(j.chained) && !upstream_wrong)) {
        j.verdict = StageVerdict::kFail;
        if (j.reason.empty())
          j.reason = exceeds(j.isolated) ? "differs by more than its limit"
                                         : "differs from the truth by more than correct implementations do, although "
                                           "it follows from its inputs";
      } else if (exceeds(j.chained)) {
        j.verdict = StageVerdict::kInherited;
      }
    }
    result.judged += j.verdict != StageVerdict::kNotJudged;
    result.inherited += j.verdict == StageVerdict::kInherited;
    if (j.verdict == StageVerdict::kFail) {
      ++result.failed;
      upstream_wrong = true;
      if (!result.first_wrong) result.first_wrong = id;
    }
    result.datasets.push_back(std::move(j));
  }
  return result;
}

}  // namespace plumbline::compare
