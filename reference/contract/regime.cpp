// Compiled with -ffp-contract=off: every operation here rounds on its own, as numpy's do.
#include "reference/contract/regime.hpp"

#include <bit>
#include <cmath>

#include "reference/contract/random.hpp"

namespace plumbline::contract {
namespace {

/// Streams of the generator: one a tensor. Rows of a segment add the segment in the upper bits.
constexpr std::uint32_t kHiddenStream = 0x80, kGradOutStream = 0x81, kMaskStream = 0x82;
constexpr std::uint32_t weight_stream(WeightId id) { return static_cast<std::uint32_t>(id); }
constexpr std::uint32_t segment_stream(std::uint32_t tensor, Index segment) {
  return tensor | static_cast<std::uint32_t>(segment) << 8;
}

/// Block 2 of the counter: words for what a regime draws besides the value.
std::uint32_t extra_word(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  return philox(seed, stream, index, 2)[0];
}

/// 2^k with probability 2^-(k+1), k <= 8.
double heavy_factor(std::uint32_t word) { return static_cast<double>(1u << std::min(std::countl_zero(word), 8)); }

/// Integer in [-limit, limit], uniform up to 2^-32.
double small_integer(std::uint32_t word, int limit) {
  const std::uint64_t span = 2 * static_cast<std::uint64_t>(limit) + 1;
  return static_cast<double>(static_cast<std::int64_t>((word * span) >> 32) - limit);
}

/// Largest power of two not above 1/sqrt(n).
double power_of_two_scale(Index n) {
  double scale = 1;
  while (scale * scale * static_cast<double>(n) > 1) scale *= 0.5;
  return scale;
}

bool is_key_gain(WeightId id) { return id == WeightId::kKvNorm || id == WeightId::kCompressorNorm; }

bool is_gain(WeightId id) {
  return is_key_gain(id) || id == WeightId::kQNorm || id == WeightId::kIndexerCompressorNorm;
}

bool is_ape(WeightId id) { return id == WeightId::kCompressorApe || id == WeightId::kIndexerCompressorApe; }

Index fan_in(const LayerConfig& c, WeightId id) { return extent(info(id).axes[1], c, Packing{}); }

/// Factor on the keys' gains.
double key_size(Regime regime) {
  switch (regime) {
    case Regime::kPeaky: return 16;
    case Regime::kNegative: return 8;
    case Regime::kFlat: return 0x1p-6;
    default: return 1;
  }
}

/// What kNegative adds to a matrix so that every key points against every query. hidden has a common offset; row 0 of
/// wq_a and every row of the key projections respond to it; column 0 of wq_b, which meets the large first channel of
/// q_latent, pushes all channels up that do not rotate, the key projections push them down.
double opposing_offset(const LayerConfig& c, WeightId id, Index row, Index column) {
  const double per_channel = 2.0 / static_cast<double>(c.hidden);
  const Index unrotated = c.head_dim - c.rope_dim;
  switch (id) {
    case WeightId::kWqA: return row == 0 ? per_channel : 0;
    case WeightId::kWqB: return column == 0 && row % c.head_dim < unrotated ? 2 : 0;
    case WeightId::kWkv:
    case WeightId::kCompressorWkv: return row % c.head_dim < unrotated ? -per_channel : 0;
    default: return 0;
  }
}

double token_value(Regime regime, std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  switch (regime) {
    case Regime::kInts: return small_integer(philox(seed, stream, index)[0], 2);
    case Regime::kHeavy: return normal(seed, stream, index) * heavy_factor(extra_word(seed, stream, index));
    default: return normal(seed, stream, index);
  }
}

}  // namespace

const std::vector<RegimeInfo>& regimes() {
  static const std::vector<RegimeInfo> all = {
      {Regime::kInts, "ints", "small integers: projections are exact"},
      {Regime::kNormal, "normal", "normal values, the default"},
      {Regime::kPeaky, "peaky", "large logits: one key takes nearly all of a head's weight"},
      {Regime::kNegative, "negative", "all logits deeply negative"},
      {Regime::kFlat, "flat", "all keys weigh nearly the same"},
      {Regime::kTies, "ties", "every index score is a zero, of either sign"},
      {Regime::kOutliers, "outliers", "one value of hidden in 256 is 64 times larger"},
      {Regime::kHeavy, "heavy", "heavy-tailed hidden and weights"},
  };
  return all;
}

std::string_view to_string(Regime regime) { return regimes()[static_cast<std::size_t>(regime)].name; }

double hidden_value(const LayerConfig& c, Regime regime, std::uint64_t seed, Index segment, Index position,
                    Index channel) {
  const std::uint32_t stream = segment_stream(kHiddenStream, segment);
  const auto index = static_cast<std::uint64_t>(position * c.hidden + channel);
  const double value = token_value(regime, seed, stream, index);
  if (regime == Regime::kOutliers && extra_word(seed, stream, index) >> 24 == 0) return value * 64;
  if (regime == Regime::kNegative) return value * 0.5 + 2;
  return value;
}

double grad_out_value(const LayerConfig& c, Regime regime, std::uint64_t seed, Index segment, Index position,
                      Index channel) {
  const auto index = static_cast<std::uint64_t>(position * c.hidden + channel);
  return token_value(regime == Regime::kInts ? regime : Regime::kNormal, seed, segment_stream(kGradOutStream, segment),
                     index);
}

double weight_value(const LayerConfig& c, Regime regime, std::uint64_t seed, WeightId id, Index element) {
  const std::uint32_t stream = weight_stream(id);
  const auto index = static_cast<std::uint64_t>(element);
  if (id == WeightId::kAttnSink) return normal(seed, stream, index);
  if (is_gain(id)) {
    const double gain = regime == Regime::kInts ? 1 : 1 + normal(seed, stream, index) * 0.25;
    return is_key_gain(id) ? gain * key_size(regime) : gain;
  }
  if (is_ape(id)) return regime == Regime::kInts ? 0 : normal(seed, stream, index) * 0.5;
  if (id == WeightId::kIndexerWeightsProj && regime == Regime::kTies)
    return philox(seed, stream, index)[0] & 1 ? 0.0 : -0.0;
  const Index inputs = fan_in(c, id);
  if (regime == Regime::kInts) return small_integer(philox(seed, stream, index)[0], 1) * power_of_two_scale(inputs);
  const double scale = 1 / std::sqrt(static_cast<double>(inputs));
  double value = normal(seed, stream, index) * scale;
  if (regime == Regime::kHeavy) value *= heavy_factor(extra_word(seed, stream, index));
  if (regime == Regime::kNegative) value = value * 0.25 + opposing_offset(c, id, element / inputs, element % inputs);
  return value;
}

bool masked_at_random(std::uint64_t seed, Index segment, Index position, double probability) {
  const auto words = philox(seed, segment_stream(kMaskStream, segment), static_cast<std::uint64_t>(position));
  return uniform01(words[0]) < probability;
}

}  // namespace plumbline::contract
