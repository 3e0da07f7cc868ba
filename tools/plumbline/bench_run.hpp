#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/machine.hpp"
#include "tools/plumbline/runner.hpp"

namespace plumbline::tools {

/// What of the layer is timed: its output and loss, or the gradients of hidden and all weights too.
enum class Phase { kForward, kAll };

struct BenchOptions {
  Phase phase = Phase::kAll;
  int warmup = 1;               ///< untimed rounds
  int repeat = 5;               ///< timed rounds at least
  double min_seconds = 1;       ///< of timed runs of a case, all implementations together, at least
  double max_memory_bytes = 0;  ///< 0: no limit
  std::function<void(double)> progress;
  std::function<bool()> cancelled;
};

/// Timed rounds of a case at most, however short they are.
inline constexpr std::size_t kMaxRounds = 10000;

/// One implementation on one case. It was timed if it has seconds; then it was right.
struct BenchEntry {
  const contract::Implementation* implementation = nullptr;
  CaseVerdict verdict;          ///< of the checked run, spoiled by a timed one that computes something else
  std::vector<double> seconds;  ///< wall clock of `run` alone, one a round, as long as those of the others
  /// Growth of the process's resident peak during an untimed run, its results included, its inputs not. Absent without
  /// warm-up, and where the system does not tell.
  std::optional<double> memory_bytes;
  bool same_bits = true;  ///< every timed run returned the checked run's bits
};

/// All implementations on one case.
struct BenchCase {
  std::string case_text;
  contract::Index tokens = 0;        ///< real ones
  double operations = 0;             ///< of the layer's matrix products (reference/operation_count.hpp)
  std::optional<bench::Rate> dgemm;  ///< mean of before and after; absent: not measured
  std::vector<BenchEntry> entries;   ///< in the order of the implementations

  const BenchEntry* find(const std::string& implementation) const;
};

/// Checks every implementation as `plumbline verify` does (kForward: the forward datasets), then times those that are
/// right: in rounds, each implementation once a round, a different one first in each. Inputs are generated, results
/// compared and judged outside the clock. No stage is asked for, only what the phase names.
///
/// Every timed run must return the checked run's bits. Where it does not, it fails if the implementation promises the
/// same bits from run to run; else the last timed run's results are judged as the checked ones were. A failed
/// implementation has no seconds. An implementation that lacks what is timed is declined, and one whose timed results
/// the truth cannot judge has checked nothing.
BenchCase bench_case(const contract::Case& item, const std::vector<const contract::Implementation*>& implementations,
                     const BenchOptions& options);

}  // namespace plumbline::tools
