#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reference/contract/result.hpp"
#include "tools/plumbline/runner.hpp"

namespace plumbline::tools {

/// Version of the JSON report's schema, `docs/report.schema.json`.
inline constexpr int kReportSchemaVersion = 1;

/// "passed", as in reports.
const char* outcome_name(Outcome outcome);

/// What a report says of the machine and the build.
nlohmann::ordered_json environment_json();

/// The report of a run as JSON.
nlohmann::ordered_json report_json(const std::vector<CaseVerdict>& verdicts, int exit_code);

/// Writes it whole or not at all.
contract::Status write_report(const std::string& path, const std::vector<CaseVerdict>& verdicts, int exit_code);

}  // namespace plumbline::tools
