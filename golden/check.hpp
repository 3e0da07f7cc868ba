#pragma once
#include "golden/golden_file.hpp"

namespace plumbline::golden {

/// Everything about a golden file's contents that is not about its bytes: `contract::validate(problem)`, shapes of the
/// results, and
/// - real results: no NaN and no Inf where the layout specifies a value. Legal infinities: -inf in `index_scores`
///   outside a valid row's visible entries, +-inf in `attn_lse` (an infinite sink), -inf in `max_logits` (no valid
///   row);
/// - `topk`: every row without the query role all -1; in the others visible entries and -1, no entry twice.
contract::Status check(const GoldenFile& golden);

/// Whether row `row` of a dataset has a specified value there (`compare` judges it only then). Rows are those of axis
/// 0: tokens, compressed entries, or none for datasets that are one value of the batch.
bool row_is_specified(contract::DatasetId id, const contract::Problem& problem, contract::Index row);

}  // namespace plumbline::golden
