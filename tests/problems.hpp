#pragma once
#include <cmath>
#include <limits>
#include <random>

#include "reference/contract/problem.hpp"

namespace plumbline::tests {

using contract::Index;

/// A small layer of each kind for tests that need no case string. All sizes differ, the window is shorter than the
/// segments, and there are more visible entries than picks.
inline contract::LayerConfig small_config(Index ratio, bool overlap, bool indexer) {
  contract::LayerConfig c;
  c.hidden = 40;
  c.heads = 6;
  c.head_dim = 32;
  c.rope_dim = 8;
  c.q_lora_rank = 20;
  c.o_groups = 2;
  c.o_lora_rank = 10;
  c.ratio = ratio;
  c.overlap = overlap;
  c.indexer = indexer;
  c.index_heads = 4;
  c.index_dim = 16;
  c.index_topk = 3;
  c.window = 7;
  c.rope_base = ratio > 1 ? 40000 : 10000;
  c.yarn_factor = 16;
  c.yarn_orig = 64;
  c.eps = 1e-6;
  c.loss_coeff = 0.01;
  c.sparse_loss = true;
  return c;
}

/// Fills a problem from the standard library's engine; padding rows of hidden and grad_out are NaN.
inline contract::Problem random_problem(const contract::LayerConfig& config, const contract::Packing& packing,
                                        unsigned seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> normal;
  contract::Problem problem;
  problem.config = config;
  problem.packing = packing;
  const auto filled = [&](contract::Shape shape, double scale) {
    contract::Tensor tensor(std::move(shape));
    for (double& value : tensor.values()) value = scale * normal(engine);
    return tensor;
  };
  problem.hidden = filled({packing.tokens(), config.hidden}, 1);
  problem.grad_out = filled({packing.tokens(), config.hidden}, 1);
  for (Index row = 0; row < packing.tokens(); ++row)
    if (packing.is_padding(row))
      for (Index c = 0; c < config.hidden; ++c)
        problem.hidden.row(row)[c] = problem.grad_out.row(row)[c] = std::numeric_limits<double>::quiet_NaN();
  for (const contract::WeightInfo& weight : contract::kWeights) {
    if (!contract::present(weight.presence, config)) continue;
    const contract::Shape shape = contract::shape_of(weight.axes, config, packing);
    problem.weight(weight.id) =
        filled(shape, shape.size() == 1 ? 1 : 1.5 / std::sqrt(static_cast<double>(shape.back())));
  }
  return problem;
}

}  // namespace plumbline::tests
