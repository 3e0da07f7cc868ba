#pragma once
#include <string_view>
#include <vector>

#include "reference/contract/problem.hpp"

namespace plumbline::contract {

/// How the numbers of a case are distributed. q and kv are normalised, so a regime acts where it matters: through the
/// gains of the keys' norms (they set the size of the logits), common directions of hidden, the indexer's weights.
enum class Regime : unsigned char {
  kInts,      ///< hidden in {-2..2}, matrices in {-1,0,1} * 2^-k, gains 1, ape 0: projections are exact
  kNormal,    ///< normal values; matrices scaled by 1/sqrt(fan in), gains near 1
  kPeaky,     ///< keys 16 times larger: one key takes nearly all of a head's weight
  kNegative,  ///< all logits deeply negative: keys point against every query
  kFlat,      ///< keys 64 times smaller: all keys weigh nearly the same
  kTies,      ///< indexer.weights_proj is zero: every index score is a zero, of either sign
  kOutliers,  ///< one value of hidden in 256 is 64 times larger
  kHeavy,     ///< hidden and weights times 2^k with probability 2^-(k+1): heavy tails, by exact powers of two
};

struct RegimeInfo {
  Regime id;
  std::string_view name;
  std::string_view meaning;
};
const std::vector<RegimeInfo>& regimes();
std::string_view to_string(Regime regime);

/// One element of hidden or grad_out for the token at `position` of segment `segment`.
double hidden_value(const LayerConfig& config, Regime regime, std::uint64_t seed, Index segment, Index position,
                    Index channel);
double grad_out_value(const LayerConfig& config, Regime regime, std::uint64_t seed, Index segment, Index position,
                      Index channel);

/// One element of a weight, by its row-major index in the stored shape.
double weight_value(const LayerConfig& config, Regime regime, std::uint64_t seed, WeightId id, Index element);

/// Whether the token loses the query role, for a mask that drops each with `probability`.
bool masked_at_random(std::uint64_t seed, Index segment, Index position, double probability);

}  // namespace plumbline::contract
