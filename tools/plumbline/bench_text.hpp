#pragma once
#include <string>
#include <vector>

#include "tools/plumbline/bench_run.hpp"

namespace plumbline::tools {

/// One row a case and implementation: verdict, times, ratio to the baseline, rates, memory. What was not measured is
/// empty.
std::string bench_table(const std::vector<BenchCase>& cases, const std::string& baseline);

/// What the table cannot say, a line each: the dgemm rates, cases without a baseline, bits that differ where they may.
std::string bench_notes(const std::vector<BenchCase>& cases, const std::string& baseline);

/// Why something was declined or checked nothing, a line each.
std::string untimed_reasons(const std::vector<BenchCase>& cases);

}  // namespace plumbline::tools
