#pragma once
#include "compare/golden_rule.hpp"
#include "reference/contract/sketch.hpp"

namespace plumbline::compare {

/// Compares the sketches of what `got` holds with the expected ones. With L the limit of the golden rule and M the
/// expected `largest`, a dataset of n counted entries passes if
/// - as many entries count, and each sample is within L M;
/// - each projection is within L M sqrt(n), as errors of single entries are at most L M and independent, and so is
///   the norm;
/// - each block's norm of m entries is within L M sqrt(m), and the rounding of both to float32.
/// Selections must be equal, the loss is judged by its condition (from `got`). One entry that is wrong by more than
/// 2 L M sqrt(n) is always seen, in all projections. Datasets that `got` lacks are kNotCompared.
std::vector<DatasetVerdict> compare_by_sketch_rule(const contract::Problem& problem, const contract::Sketches& want,
                                                   const contract::Results& got, const Limits& limits = {});

/// The same for two sketches of one dataset. `loss_unit`: the condition of the loss; of other datasets unused.
DatasetVerdict compare_sketches(contract::DatasetId id, const contract::Problem& problem, const contract::Sketch& want,
                                const contract::Sketch& got, double loss_unit, const Limits& limits = {});

}  // namespace plumbline::compare
