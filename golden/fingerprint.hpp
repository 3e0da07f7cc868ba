#pragma once
#include <array>
#include <string>
#include <vector>

#include "reference/contract/problem.hpp"

namespace plumbline::golden {

/// What identifies the numbers of a problem: the SHA-256 of each tensor's values, little-endian float64, row-major, as
/// 64 hexadecimal digits. Weights that the layer lacks have none.
struct Fingerprints {
  std::string hidden, grad_out;
  std::array<std::string, contract::kWeightCount> weights;

  bool empty() const { return hidden.empty(); }
  bool operator==(const Fingerprints&) const = default;
};

Fingerprints make_fingerprints(const contract::Problem& problem);

/// One tensor of a problem, by the name that files give it.
struct NamedFingerprint {
  std::string group, name;  ///< "weights", "wq_a"
  std::string* sha256;
};
/// All that a layer of this configuration has: hidden, grad_out, weights.
std::vector<NamedFingerprint> named_fingerprints(Fingerprints& fingerprints, const contract::LayerConfig& config);

/// Paths of the tensors whose fingerprints differ: "weights/wq_a".
std::vector<std::string> moved_tensors(const Fingerprints& want, const Fingerprints& got,
                                       const contract::LayerConfig& config);

}  // namespace plumbline::golden
