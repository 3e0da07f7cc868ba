#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/problem.hpp"
#include "reference/contract/regime.hpp"

namespace plumbline::contract {

enum class LayerKind : unsigned char { kSwa, kCsa, kHca };
enum class Layout : unsigned char { kThd, kSbhd };

/// Which rows lose the query role: none, each with a probability, or a prefix of each segment.
struct MaskSpec {
  enum class Kind : unsigned char { kNone, kRandom, kPrefix };
  Kind kind = Kind::kNone;
  double probability = 0;  ///< kRandom, in [0, 1]
  Index prefix = 0;        ///< kPrefix, tokens of each segment
  bool operator==(const MaskSpec&) const = default;
};

/// The sinks: drawn like other values, or one number (may be +-inf) for all heads or for one.
struct SinkSpec {
  std::optional<double> value;
  std::optional<Index> head;
  bool operator==(const SinkSpec&) const = default;
};

/// One conformance case: a layer kind, a model shape, a batch and a seed. Prints to and parses from one string, which
/// is its identity, its filter and its repro line.
struct Case {
  LayerKind kind = LayerKind::kSwa;
  std::string model = "tiny";
  LayerConfig config;          ///< preset of (kind, model) with the overrides applied
  std::vector<Index> lengths;  ///< real tokens of each segment
  Index pad = 1;               ///< physical lengths are multiples of this
  MaskSpec mask;
  Layout layout = Layout::kThd;
  Regime data = Regime::kNormal;
  SinkSpec sink;
  std::string precision = "fp64";  ///< profile name
  std::uint64_t seed = 0;
  std::string file;  ///< replays a captured case; then config, batch and values come from the file

  bool operator==(const Case&) const = default;
};

/// Largest batch a case may name, padding included.
inline constexpr Index kMaxCaseTokens = Index{1} << 28;

/// Parses `csa,model=tiny,seq=37+3+4,pad=8,seed=7`: the kind, then keys in any order (`case_keys()`, and every field of
/// LayerConfig by its name), or `file=x.h5`. Unknown keys (with the nearest known one), repeated keys, malformed or
/// impossible values are usage errors.
Result<Case> parse_case(std::string_view text);

/// Expands sweeps, `seq=127..131` and `tp=1|2|4` (also `csa|hca`), into their product in reading order and parses each.
Result<std::vector<Case>> parse_cases(std::string_view text);

/// The short form: kind, model and what differs from the defaults. parse_case(print(c)) == c.
std::string print(const Case& c);

/// The full form: every key.
std::string print_full(const Case& c);

/// One key of a case string that is not a field of the configuration.
struct CaseKey {
  std::string_view name;
  std::string_view values;
  std::string_view meaning;
};
const std::vector<CaseKey>& case_keys();

/// Packing of the case: lengths, padding, masked rows.
Packing make_packing(const Case& c);

/// Estimated bytes of the tensors that `make_problem` makes.
double problem_bytes(const Case& c);

/// Generates every tensor of the case: a function of the case string alone, the same bits on every machine. A real
/// token's values depend on its segment and position only, so neither padding nor later segments change them. Padding
/// rows, and grad_out of rows without the query role, are NaN. A `file=` case is not generated: usage error.
Result<Problem> make_problem(const Case& c);

std::string_view to_string(LayerKind kind);
std::string_view to_string(Layout layout);
const std::vector<std::string_view>& precision_names();

}  // namespace plumbline::contract
