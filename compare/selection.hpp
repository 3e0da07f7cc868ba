#pragma once
#include <string>
#include <vector>

#include "reference/contract/problem.hpp"
#include "reference/contract/results.hpp"

namespace plumbline::compare {

/// What is wrong with a candidate's selections; `wrong` = 0 is right.
struct SelectionFaults {
  contract::Index rows = 0;     ///< looked at
  contract::Index wrong = 0;    ///< rows at fault
  contract::Index swapped = 0;  ///< rows that pick others than the truth, all within the scores' budgets
  contract::Index first = -1;   ///< first row at fault
  std::string reason;           ///< of that row
};

/// Every row of `picks` [T, K] without the query role holds -1 alone; others hold min(K, visible) different entries,
/// each visible to the query, and else -1.
SelectionFaults check_legality(const contract::Problem& problem, const contract::Tensor& picks);

/// Each row is an exact top-k of the candidate's own scores: ties to the smaller index, -0 = +0.
SelectionFaults check_own_scores(const contract::Problem& problem, const contract::Tensor& picks,
                                 const contract::Tensor& scores);

/// Each row that picks another entry than the true scores would prefers it by less than both scores may err.
SelectionFaults check_swaps(const contract::Problem& problem, const contract::Tensor& picks,
                            const contract::Tensor& true_scores, const contract::Tensor& score_budgets);

}  // namespace plumbline::compare
