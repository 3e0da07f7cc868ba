#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/plumbline/bench_run.hpp"

namespace plumbline::tools {

/// Version of the schema, `docs/bench.schema.json`.
inline constexpr int kBenchSchemaVersion = 1;

std::string_view to_string(Phase phase);

/// The report of a run as JSON (docs/bench-schema.md).
nlohmann::ordered_json bench_json(const std::vector<BenchCase>& cases, const std::string& baseline,
                                  const BenchOptions& options, int exit_code);

}  // namespace plumbline::tools
