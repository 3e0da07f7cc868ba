#pragma once
#include "golden/golden_file.hpp"

namespace plumbline::golden {

/// Everything about a golden file's contents that is not about its bytes: `contract::validate(problem)` where the file
/// holds inputs and weights, shapes of the results and sketches, and
/// - real results: no NaN and no Inf where the layout specifies a value. Legal infinities: -inf in `index_scores`
///   outside a valid row's visible entries, +-inf in `attn_lse` (an infinite sink), -inf in `max_logits` (no valid
///   row); sketches finite;
/// - `topk`: every row without the query role all -1; in the others visible entries and -1, no entry twice.
contract::Status check(const GoldenFile& golden);

}  // namespace plumbline::golden
