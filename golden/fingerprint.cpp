#include "golden/fingerprint.hpp"

#include <span>

#include "golden/checksum.hpp"

namespace plumbline::golden {

using contract::LayerConfig;
using contract::Problem;
using contract::Tensor;
using contract::WeightInfo;

std::vector<NamedFingerprint> named_fingerprints(Fingerprints& fingerprints, const LayerConfig& config) {
  std::vector<NamedFingerprint> named = {{"inputs", "hidden", &fingerprints.hidden},
                                         {"inputs", "grad_out", &fingerprints.grad_out}};
  for (const WeightInfo& weight : contract::kWeights)
    if (present(weight.presence, config))
      named.push_back(
          {"weights", std::string(weight.name), &fingerprints.weights[static_cast<std::size_t>(weight.id)]});
  return named;
}

Fingerprints make_fingerprints(const Problem& problem) {
  Fingerprints fingerprints;
  const std::vector<NamedFingerprint> named = named_fingerprints(fingerprints, problem.config);
  std::vector<const Tensor*> tensors = {&problem.hidden, &problem.grad_out};
  for (const WeightInfo& weight : contract::kWeights)
    if (present(weight.presence, problem.config)) tensors.push_back(&problem.weight(weight.id));
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < named.size(); ++i)
    *named[i].sha256 = sha256_of(std::as_bytes(std::span(tensors[i]->values())));
  return fingerprints;
}

std::vector<std::string> moved_tensors(const Fingerprints& want, const Fingerprints& got, const LayerConfig& config) {
  Fingerprints a = want, b = got;
  const auto left = named_fingerprints(a, config), right = named_fingerprints(b, config);
  std::vector<std::string> moved;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (*left[i].sha256 != *right[i].sha256) moved.push_back(left[i].group + "/" + left[i].name);
  return moved;
}

}  // namespace plumbline::golden
