#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compare/gate.hpp"
#include "compare/selection.hpp"
#include "reference/contract/implementation.hpp"
#include "reference/contract/precision.hpp"

namespace plumbline::compare {

/// Measured on emulations of the profile.
struct Ensemble {
  int members = 0;
  std::array<Kappa, contract::DatasetId::kCount> isolated{}, chained{};
};

/// What a problem's own truth is, from the case's inputs on; made once for a problem and profile.
struct Truth {
  contract::Problem problem;  ///< rounded to the profile
  contract::Request request;
  contract::Results values;   ///< in double precision, the truth's own selections
  contract::Results budgets;  ///< chained
  Ensemble ensemble;
};

struct JudgeOptions {
  int members = 16;             ///< of the ensemble; 0: only patterns, bounds and selections are judged
  std::uint64_t seed = 0;       ///< of the ensemble's orders and tilings
  contract::DatasetSet wanted;  ///< what may be judged; empty: all of the layer
  std::function<bool()> cancelled;
};

/// Truth, budgets and ensemble of a problem. Errors: those of run_layer.
contract::Result<Truth> make_truth(const contract::Problem& problem, const contract::PrecisionProfile& profile,
                                   const JudgeOptions& options);

enum class Gate : unsigned char { kNone, kPattern, kBound, kEnsemble, kGroup, kSelection, kGolden };
std::string_view to_string(Gate gate);

enum class StageVerdict : unsigned char {
  kPass,
  kFail,       ///< its own computation is wrong: its inputs, as the candidate holds them, do not explain it
  kInherited,  ///< right, given its inputs; they are wrong
  kNotJudged,
};
std::string_view to_string(StageVerdict verdict);

/// One dataset of a candidate.
struct DatasetJudgement {
  explicit DatasetJudgement(contract::DatasetId dataset) : id(dataset) {}

  contract::DatasetId id;
  StageVerdict verdict = StageVerdict::kNotJudged;
  Gate gate = Gate::kNone;  ///< that failed; else the one nearest to failing
  double isolated = 0;      ///< share of the isolated limit that is used, over all gates; above 1 fails
  double chained = 0;       ///< the same from the case's inputs on; 0 where it cannot be judged
  double bound = 0;         ///< max |y - y*| / B, isolated
  double rms = 0;           ///< rms of (y - y*) / B, isolated
  double rms_spread = 1;    ///< largest over smallest such rms among correct runs of the ensemble
  Index elements = 0;
  Index wrong = 0;                           ///< elements beyond the isolated limit
  std::vector<std::vector<Index>> wrong_at;  ///< of each axis, the indices at which wrong elements lie, ascending
  std::vector<Index> worst;                  ///< index of the worst element
  double got = 0, want = 0, allowed = 0;     ///< there
  double ulps = 0;                           ///< |got - want| there, in units in the last place of what is stored
  std::vector<std::string> composite_of;     ///< stages that the candidate lacks and that are judged with this one
  std::string reason;
};

struct Judgement {
  std::vector<DatasetJudgement> datasets;  ///< in the order of computation: forward, then backward
  Index judged = 0, failed = 0, inherited = 0;
  std::optional<contract::DatasetId> first_wrong;
};

/// Judges what `candidate` holds. Shapes must be the problem's.
contract::Result<Judgement> judge(const Truth& truth, const contract::PrecisionProfile& profile,
                                  const contract::Results& candidate);

/// Datasets in the order in which they are computed: stages forward, then gradients from `out` back to hidden.
const std::vector<contract::DatasetId>& computation_order();
/// Stages whose values the dataset's computation reads directly (not weights or inputs).
std::vector<contract::DatasetId> direct_inputs(contract::DatasetId id);

}  // namespace plumbline::compare
