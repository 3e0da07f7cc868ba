#pragma once
#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/budget/estimate.hpp"
#include "reference/contract/implementation.hpp"
#include "reference/row_plan.hpp"

namespace plumbline::reference::budget {

using contract::CastPoint;
using contract::DatasetId;
using contract::StageId;
using contract::WeightId;

/// What all parts of a budget run share: the problem, the profile, what the candidate holds, and the budgets made so
/// far.
struct Ledger {
  const contract::Problem& problem;
  const contract::PrecisionProfile& profile;
  const contract::Results& given;    ///< values of `exact` datasets
  const contract::DatasetSet exact;  ///< held by the candidate: known to their successors
  const RowPlan& plan;
  const Arithmetic arithmetic;
  const Rotation rotation;
  contract::Results budgets, values;  ///< wanted ones, filled with 0 and the fill of runs

  const contract::LayerConfig& config() const { return problem.config; }
  ConstMatrixMap<double> weight(WeightId id) const {
    const contract::Tensor& w = problem.weight(id);
    return map(w.data(), w.shape()[0], w.row_size());
  }
  const double* vector(WeightId id) const { return problem.weight(id).data(); }

  Rounding rounding(contract::NumberFormat format) const {
    if (format == profile.compute) return {};
    return {contract::unit_roundoff(format), contract::smallest_subnormal(format)};
  }
  /// A declared cast; nothing where the profile does not round.
  Rounding cast(CastPoint point) const { return rounding(profile.cast(point)); }
  /// A value that is rounded as the dataset is stored, on its way into a product.
  Rounding cast_of_store(DatasetId id) const { return rounding(profile.stored(id)); }
  double stored(DatasetId id) const { return contract::unit_roundoff(profile.stored(id)); }

  /// The value of a stage is complete: adds the rounding of its store, records the budget, and leaves in `e` what
  /// successors know of it. Rows of `e` are `rows` of the dataset.
  void settle(DatasetId id, const std::vector<Index>& rows, Estimate& e);

  /// Rows of an input ([T, hidden]).
  Estimate gather(const contract::Tensor& from, const std::vector<Index>& rows) const;
};

inline void Ledger::settle(DatasetId id, const std::vector<Index>& rows, Estimate& e) {
  const double u = stored(id), tiny = contract::smallest_subnormal(profile.stored(id));
  contract::Tensor* budget = budgets.find(id);
  contract::Tensor* value = values.find(id);
  const contract::Tensor* known = exact.test(id.index()) ? given.find(id) : nullptr;
  const double kept = contract::may_stay_unrounded(id) ? u : 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    double* v = e.value.row(static_cast<Index>(r)).data();
    double* b = e.error.row(static_cast<Index>(r)).data();
    for (Index c = 0; c < e.cols(); ++c) b[c] = std::isfinite(v[c]) ? b[c] + u * std::abs(v[c]) + tiny : 0;
    if (budget) std::copy(b, b + e.cols(), budget->row(rows[r]));
    if (value) std::copy(v, v + e.cols(), value->row(rows[r]));
    if (!known) continue;
    const double* from = known->row(rows[r]);
    for (Index c = 0; c < e.cols(); ++c) {
      v[c] = from[c];
      b[c] = std::isfinite(v[c]) ? kept * std::abs(v[c]) : 0;
    }
  }
}

inline Estimate Ledger::gather(const contract::Tensor& from, const std::vector<Index>& rows) const {
  Matrix<double> x(static_cast<Index>(rows.size()), from.row_size());
  for (std::size_t r = 0; r < rows.size(); ++r)
    x.row(static_cast<Index>(r)) = map(from.row(rows[r]), 1, from.row_size());
  return Estimate(std::move(x));
}

}  // namespace plumbline::reference::budget
