#pragma once
#include <vector>

#include "reference/contract/problem.hpp"

namespace plumbline::reference {

/// Floating-point operations that one stage's matrix products need, two a multiply-add; elementwise work is not
/// counted.
struct StageOperations {
  contract::StageId stage;
  double forward = 0;
  double backward = 0;
};

/// Operations of every stage that has products, over the batch's real tokens, valid rows and the keys they really see:
/// projections (backward: input and weight; only the weight where the input is detached), index scores over visible
/// entries (backward over the loss's candidates), attention (forward z and the weighted sum, backward dp, dq and both
/// products of dkey; z is not counted again), the dense loss's logits.
std::vector<StageOperations> operation_counts(const contract::LayerConfig& config, const contract::Packing& packing);

/// Sum over stages, forward alone or with backward.
double total_operations(const contract::LayerConfig& config, const contract::Packing& packing, bool backward);

}  // namespace plumbline::reference
