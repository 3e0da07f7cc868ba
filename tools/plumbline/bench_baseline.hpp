#pragma once
#include <map>
#include <string>
#include <vector>

#include "tools/plumbline/bench_run.hpp"
#include "tools/plumbline/bench_statistics.hpp"

namespace plumbline::tools {

/// Ratios of an earlier report: of each case, by implementation. Times are not comparable between runs, ratios within
/// one run are.
struct EarlierBench {
  std::map<std::string, std::map<std::string, Summary>> ratios;
};

/// Reads a report of `plumbline bench --json`. kFile where it is not one, or was made with another phase or baseline:
/// its ratios mean something else.
contract::Result<EarlierBench> load_earlier_bench(const std::string& path, Phase phase, const std::string& baseline);

/// One ratio that both reports hold.
struct RatioChange {
  std::string case_text, implementation;
  Summary before, now;
  bool grown() const { return has_grown(before, now); }
};

/// Ratios that both hold, in the order of the cases; the baseline's own, always 1, are left out.
std::vector<RatioChange> compare_ratios(const EarlierBench& earlier, const std::vector<BenchCase>& cases,
                                        const std::string& baseline);

/// One row a ratio: before, now, by how much it may differ, the verdict.
std::string change_table(const std::vector<RatioChange>& changes);

}  // namespace plumbline::tools
