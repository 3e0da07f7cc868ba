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
  contract::Tensor matrix;  ///< [outputs, inputs]
  // Relative to the largest |element|, the terms of its formula taken by absolute value: where they cancel (a softmax
  // with all its weight on one key, a norm of one channel) what is left is as wrong as they are.
  double vjp_error = 0;         ///< max |J^T g - vjp(g)| / |g|, g every unit vector and some of random signs
  double difference_error = 0;  ///< max |J - central differences in long double|
};

/// What `jacobian` accepts: the maps, then the stages that are made of them.
std::vector<std::string> jacobian_names();

/// Jacobians of a map, or of each map in a stage, on a small case, at its last valid query row (and the last entry that
/// this row sees). Errors, all kUsage: an unknown name (the message lists the known ones), a stage that the case's
/// layer kind lacks, a case without a valid row to look at, a case too large for dense matrices, a `file=` case; and
/// those of `make_problem`.
contract::Result<std::vector<JacobianReport>> jacobian(std::string_view name, const contract::Case& c);

}  // namespace plumbline::reference
