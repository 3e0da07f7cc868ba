#pragma once
#include "reference/contract/implementation.hpp"

namespace plumbline::reference {

/// Every stage and gradient evaluated in double precision on a candidate's own inputs.
struct Isolated {
  contract::Results truth;  ///< what each dataset should be, given what the candidate holds for its inputs
  contract::Results
      values;  ///< what later stages were given: the candidate's where it holds the dataset, else the truth
};

/// Runs the layer once. Where `candidate` holds a stage or a stage's gradient, its values replace the computed ones
/// before anything reads them; what it lacks is computed, so that its successor is judged together with it. Its
/// selections replace the computed ones too, but for entries that the query cannot see. `index_scores` outside
/// visibility are ignored. `problem`: as the candidate received it.
/// Errors: those of run_layer.
contract::Result<Isolated> run_isolated(const contract::Problem& problem, const contract::Results& candidate,
                                        const contract::Request& request);

}  // namespace plumbline::reference
