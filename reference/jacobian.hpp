#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/case.hpp"

namespace plumbline::reference {

/// The dense Jacobian of one map of the layer at values that a case really takes, checked against the vjp that the
/// backward pass uses and against differences of the forward code.
struct JacobianReport {
  std::string map;  ///< rope, inverse_rope, rms_norm, rms_norm_weightless, pooling, hadamard, sink_softmax
  std::string at;   ///< which values it was taken at
  std::string formula;
  contract::Tensor matrix;      ///< [outputs, inputs]
  double vjp_error = 0;         ///< max |J^T g - vjp(g)| / max |vjp(g)|, g every unit vector and some with random signs
  double difference_error = 0;  ///< max |J - central differences in long double| / max |J|
};

/// What `jacobian` accepts: the maps, then the stages that are made of them.
std::vector<std::string> jacobian_names();

/// Jacobians of a map, or of each map in a stage, on a small case, at its last valid query row (and the last entry that
/// this row sees). Errors, all kUsage: an unknown name (the message lists the known ones), a stage that the case's
/// layer kind lacks, a case without a valid row to look at, matrices of more than 2^24 elements; and those of
/// `make_problem`.
contract::Result<std::vector<JacobianReport>> jacobian(std::string_view name, const contract::Case& c);

}  // namespace plumbline::reference
