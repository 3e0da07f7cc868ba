#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/problem.hpp"

namespace plumbline::contract {

enum class LayerKind : unsigned char { kSwa, kCsa, kHca };
enum class Layout : unsigned char { kThd, kSbhd };
/// Data regimes, see `regime.hpp`.
enum class Regime : unsigned char { kInts, kNormal, kPeaky, kNegative, kFlat, kTies, kOutliers, kHeavy };

/// Which valid rows lose the query role: none, each with a probability, or a prefix of each segment.
struct MaskSpec {
  enum class Kind : unsigned char { kNone, kRandom, kPrefix };
  Kind kind = Kind::kNone;
  double probability = 0;  ///< kRandom, in [0, 1]
  Index prefix = 0;        ///< kPrefix, tokens of each segment
  bool operator==(const MaskSpec&) const = default;
};

/// One conformance case: a layer kind, a model shape, a batch and a seed. Prints to and parses from one string,
/// which is its identity, filter and repro line.
struct Case {
  LayerKind kind = LayerKind::kSwa;
  std::string model = "tiny";
  LayerConfig config;              ///< preset of (kind, model) with the overrides applied
  std::vector<Index> lengths;      ///< real tokens of each segment
  Index pad = 1;                   ///< physical lengths are multiples of this
  MaskSpec mask;
  Layout layout = Layout::kThd;
  Regime data = Regime::kNormal;
  std::string precision = "fp64";  ///< profile name
  std::uint64_t seed = 0;
  std::string file;                ///< replays a captured case instead of generating one; all else then comes from it

  bool operator==(const Case&) const = default;
};

/// Parses `csa,model=tiny,seq=37+3+4,pad=8,seed=7`. Keys in any order after the kind; every field of LayerConfig can
/// be overridden by its name. Unknown or repeated keys and malformed values are usage errors that name the nearest
/// key; an impossible configuration is refused as `validate(LayerConfig)` does.
Result<Case> parse_case(std::string_view text);

/// Expands sweeps (`seq=127..131`, `seed=1|2|3`, `csa|hca,...`) into their product, then parses each.
Result<std::vector<Case>> parse_cases(std::string_view text);

/// The short form: kind, model and what differs from the defaults. parse_case(print(c)) == c.
std::string print(const Case& c);

/// The full form: every key.
std::string print_full(const Case& c);

/// Preset of a layer kind and model shape (`models.md`): tiny, tiny-tp, flash, pro.
Result<LayerConfig> preset(LayerKind kind, std::string_view model);
/// Default real length: tiny shapes 37 (hca 300), flash and pro 1024.
Index default_length(LayerKind kind, std::string_view model);
const std::vector<std::string>& preset_names();

std::string_view to_string(LayerKind kind);
std::string_view to_string(Regime regime);

/// Packing of the case (rows the mask removes are drawn from the seed).
Result<Packing> make_packing(const Case& c);

/// Generates every tensor of the case: a function of the case string alone, the same bits on every machine. Padding
/// rows are poisoned with NaN. `file=` cases are not generated (usage error): they are read by golden/.
Result<Problem> make_problem(const Case& c);

}  // namespace plumbline::contract
