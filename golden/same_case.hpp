#pragma once
#include "golden/layout_input.hpp"
#include "reference/contract/problem.hpp"

namespace plumbline::golden {

/// Whether whatever a candidate file holds of a problem (config, packing, inputs, weights: any part, or none) is this
/// problem, as `read_candidate` says. Errors: kUsage "of another case" with what differs, got and want; kFile for
/// names and types; kMemory if one dataset does not fit the budget. Callers hold a LibraryLock.
contract::Status check_same_case(const InputFile& file, const Groups& groups, const contract::Problem& problem,
                                 const MemoryBudget& budget);

}  // namespace plumbline::golden
