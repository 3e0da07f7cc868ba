#pragma once
#include <array>

#include "reference/contract/dataset.hpp"

namespace plumbline::contract {

/// One layer with all its numbers: what a case string or a golden file stands for, and what an implementation runs.
struct Problem {
  LayerConfig config;
  Packing packing;
  Tensor hidden;                             ///< [T, hidden]; padding rows may hold anything, NaN included
  Tensor grad_out;                           ///< [T, hidden]; rows with row_valid 0 may hold anything
  std::array<Tensor, kWeightCount> weights;  ///< absent ones are empty

  Tensor& weight(WeightId id) { return weights[static_cast<std::size_t>(id)]; }
  const Tensor& weight(WeightId id) const { return weights[static_cast<std::size_t>(id)]; }
};

/// Checks configuration, packing, every shape, and that no number is NaN or Inf where the contract forbids it
/// (hidden of real tokens, grad_out of valid rows, all weights; attn_sink may be +-Inf).
Status validate(const Problem& problem);

}  // namespace plumbline::contract
