#pragma once
#include <string>
#include <vector>

#include "reference/contract/problem.hpp"
#include "reference/contract/results.hpp"

namespace plumbline::compare {

enum class Verdict { kPass, kFail, kNotCompared };

/// What two correct double-precision implementations may differ by.
struct Limits {
  double forward = 1e-13;
  double gradient = 1e-12;
  double loss = 1e-13;  ///< times the loss's condition, see `loss_condition`
  /// kl_rows in units of the largest row's sum t (|ln t| + |ln p|), as the loss, instead of the largest kl. That is
  /// what double precision can promise where prediction and teacher nearly agree and the terms cancel.
  bool kl_by_condition = false;
};

/// The comparison of one dataset. `error` is max|got - want| / max|want| over specified, finite entries; absolute where
/// the expected tensor is all zero; for the loss |got - want| / condition; for selections the number of wrong rows.
struct DatasetVerdict {
  contract::DatasetId id;
  Verdict verdict = Verdict::kNotCompared;
  double error = 0;
  double limit = 0;
  contract::Index compared = 0;             ///< entries compared (rows, of a selection)
  contract::Index wrong = 0;                ///< of them beyond the limit
  std::vector<contract::Index> worst = {};  ///< index of the worst entry (its row, of a selection)
  double got = 0, want = 0;                 ///< values there
  std::string reason = {};                  ///< why it failed or was not compared

  /// Part of the limit that was used; a comparison passes up to 1.
  double share() const { return limit > 0 ? error / limit : error; }
};

/// Compares every dataset that `want` holds, in registry order, by the rule above: infinities must match in place, NaN
/// never passes, rows of `topk` are sets, the fixed values of rows without the query role count. A dataset that `got`
/// lacks is kNotCompared, with the reason; one of another shape fails. The loss is judged by the condition of `want`,
/// else of `got`, else relative to itself; the reason says which of the latter two it was, also when it passes.
std::vector<DatasetVerdict> compare_by_golden_rule(const contract::Problem& problem, const contract::Results& want,
                                                   const contract::Results& got, const Limits& limits = {});

/// sum_{g in C} t (|ln t| + |ln p|) of each row, [T], t the teacher and p the prediction: how far rounding of its terms
/// can move kl_rows. Needs `teacher` and `predict`, or `index_scores` (and `topk` with the sparse loss) instead of
/// `predict`, in their right shapes; empty without them.
std::vector<double> kl_conditions(const contract::Problem& problem, const contract::Results& results);

/// |loss_coeff| * sum of kl_conditions / (N or 1): the same for the loss; negative when it is not known.
double loss_condition(const contract::Problem& problem, const contract::Results& results);

}  // namespace plumbline::compare
