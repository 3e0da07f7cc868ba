#pragma once
#include <array>

#include "reference/contract/case.hpp"

namespace plumbline::bench {

/// Seconds of one layer run by stage: the time from the previous stage's value to this one's, forward, and from the
/// previous cotangent to this one's, backward. Work between two stages counts for the later one.
struct StageSeconds {
  std::array<double, contract::kStageCount> forward{};
  std::array<double, contract::kStageCount> backward{};
};

/// Runs the layer forward and backward once in double precision with a clock in its policy.
StageSeconds time_stages(const contract::Problem& problem);

}  // namespace plumbline::bench
