#pragma once
#include "reference/contract/implementation.hpp"

namespace plumbline::bench {

/// What a training step needs of a layer: its output and loss, and with `backward` the gradients of hidden and of every
/// weight. No stage is tapped.
inline contract::Request layer_request(bool backward) {
  using contract::DatasetId;
  contract::Request request;
  request.wanted.set(DatasetId::forward(contract::StageId::kOut).index());
  request.wanted.set(DatasetId::forward(contract::StageId::kIndexerLoss).index());
  if (!backward) return request;
  request.wanted.set(DatasetId::hidden_gradient().index());
  for (const contract::WeightInfo& weight : contract::kWeights)
    request.wanted.set(DatasetId::gradient(weight.id).index());
  return request;
}

}  // namespace plumbline::bench
