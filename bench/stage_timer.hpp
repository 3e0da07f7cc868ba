#pragma once
#include <array>

#include "reference/contract/problem.hpp"

namespace plumbline::bench {

/// CPU seconds, summed over threads, that one run of the layer forward and backward spent in each stage's matrix
/// products. Products that are computed again in the backward pass (those under the indexer's ReLU) count as forward.
struct StageSeconds {
  std::array<double, contract::kStageCount> forward{};
  std::array<double, contract::kStageCount> backward{};  ///< in the products of the stage's vjp
  double rest = 0;  ///< everything outside products: norms, rotations, softmax, top-k, copies, waiting threads

  double total() const;
};

/// Runs the layer forward and backward once in double precision, with a clock around every product of its policy.
contract::Result<StageSeconds> time_stages(const contract::Problem& problem);

}  // namespace plumbline::bench
