#pragma once
#include <string>
#include <vector>

#include "tools/plumbline/runner.hpp"

namespace plumbline::tools {

/// One row a case: what was compared, the worst dataset and its share of the limit, the verdict.
std::string verdict_table(const std::vector<CaseVerdict>& verdicts);

/// The stages of a failing case, where the first wrong one differs, how badly, and the command that shows it again.
std::string failure_report(const CaseVerdict& verdict);

/// Prints each case that could not be judged as an error, with what stopped it.
void report_case_errors(const std::vector<CaseVerdict>& verdicts);

/// "12 runs: 11 passed, 1 failed, ...".
std::string summary_line(const std::vector<CaseVerdict>& verdicts);

/// The command that shows the case's first wrong dataset again.
std::string repro_line(const CaseVerdict& verdict);

/// Datasets that passed with a reservation, one line each, as a loss judged without a teacher.
std::string notes(const CaseVerdict& verdict);

}  // namespace plumbline::tools
