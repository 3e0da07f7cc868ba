#pragma once
#include <string>
#include <vector>

#include "tools/plumbline/runner.hpp"

namespace plumbline::tools {

/// One row a case: what was compared, the worst dataset and its share of the limit, the verdict.
std::string verdict_table(const std::vector<CaseVerdict>& verdicts);

/// The stages of a failing case, where the first wrong one differs, how badly, and the command that shows it again.
std::string failure_report(const CaseVerdict& verdict);

/// "12 cases: 11 passed, 1 failed, ...".
std::string summary_line(const std::vector<CaseVerdict>& verdicts);

/// The command that runs this case again.
std::string repro_line(const CaseVerdict& verdict);

}  // namespace plumbline::tools
