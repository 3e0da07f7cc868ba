#pragma once
#include "reference/contract/implementation.hpp"
#include "reference/contract/precision.hpp"

namespace plumbline::reference {

/// Error budgets of a layer, element by element.
struct Budgets {
  contract::Results budgets;  ///< B of each wanted dataset; 0 where the contract fixes the value
  contract::Results values;   ///< what the budget pass computed on its way: equal to the truth up to double's rounding
};

/// B of every wanted dataset for an implementation of `profile` that received `problem` (already rounded to the
/// profile).
///
/// `exact` are the datasets that a candidate holds: `given` has their values, and successors take them as known exactly
/// (but for what a fused kernel may keep unrounded). What is not in `exact` is computed here, and its own budget
/// spreads to its successors. So with every stage in `exact` these are budgets of isolated errors, with none those of
/// errors from the case's inputs on, and a stage that a candidate lacks merges with its successor. `given` must hold
/// `topk` where the layer has an indexer: selections are never in doubt here.
///
/// Errors: those of validate; kUsage without selections; kInterrupted; kMemory.
contract::Result<Budgets> run_budgets(const contract::Problem& problem, const contract::PrecisionProfile& profile,
                                      const contract::Results& given, const contract::DatasetSet& exact,
                                      const contract::Request& request);

}  // namespace plumbline::reference
