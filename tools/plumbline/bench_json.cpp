#include "tools/plumbline/bench_json.hpp"

#include "tools/plumbline/bench_statistics.hpp"
#include "tools/plumbline/report.hpp"

namespace plumbline::tools {
namespace {

nlohmann::ordered_json summary_json(const std::vector<double>& values) {
  if (values.empty()) return nullptr;
  const Summary s = summarise(values);
  return {{"median", s.median},        {"min", s.min},        {"max", s.max}, {"lower_quartile", s.lower},
          {"upper_quartile", s.upper}, {"spread", s.spread()}};
}

nlohmann::ordered_json entry_json(const BenchCase& one, const BenchEntry& entry, const std::string& baseline) {
  const CaseVerdict& v = entry.verdict;
  nlohmann::ordered_json json = {{"implementation", v.implementation},
                                 {"precision", v.precision},
                                 {"truth", v.truth},
                                 {"outcome", outcome_name(v.outcome)},
                                 {"first_wrong_stage", nullptr},
                                 {"reason", nullptr},
                                 {"error", nullptr},
                                 {"same_bits", nullptr},
                                 {"seconds", summary_json(entry.seconds)},
                                 {"ratio", nullptr},
                                 {"tokens_per_second", nullptr},
                                 {"gflop_per_second", nullptr},
                                 {"share_of_dgemm", nullptr},
                                 {"memory_bytes", nullptr}};
  if (const compare::DatasetVerdict* first = v.first_wrong()) {
    json["first_wrong_stage"] = first->id.path();
    json["reason"] = first->reason;
  }
  if (v.problem) json["error"] = {{"exit_code", contract::exit_code(v.problem->code)}, {"message", v.problem->text()}};
  if (entry.seconds.empty()) return json;
  json["same_bits"] = entry.same_bits;
  json["seconds"]["samples"] = entry.seconds;
  if (const BenchEntry* base = one.find(baseline))
    json["ratio"] = summary_json(round_ratios(entry.seconds, base->seconds));
  const double median = summarise(entry.seconds).median;
  json["tokens_per_second"] = static_cast<double>(one.tokens) / median;
  if (one.operations > 0) {
    json["gflop_per_second"] = one.operations / median * 1e-9;
    if (one.dgemm) json["share_of_dgemm"] = one.operations / median / one.dgemm->per_second;
  }
  if (entry.memory_bytes) json["memory_bytes"] = *entry.memory_bytes;
  return json;
}

}  // namespace

std::string_view to_string(Phase phase) { return phase == Phase::kForward ? "forward" : "all"; }

nlohmann::ordered_json bench_json(const std::vector<BenchCase>& cases, const std::string& baseline,
                                  const BenchOptions& options, int exit_code) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const BenchCase& one : cases) {
    nlohmann::ordered_json entries = nlohmann::ordered_json::array();
    for (const BenchEntry& entry : one.entries) entries.push_back(entry_json(one, entry, baseline));
    nlohmann::ordered_json json = {{"case", one.case_text},
                                   {"tokens", one.tokens},
                                   {"gflop", one.operations * 1e-9},
                                   {"dgemm_gflop_per_second", nullptr},
                                   {"implementations", std::move(entries)}};
    if (one.dgemm) json["dgemm_gflop_per_second"] = one.dgemm->per_second * 1e-9;
    list.push_back(std::move(json));
  }
  return {{"schema_version", kBenchSchemaVersion},
          {"kind", "bench"},
          {"exit_code", exit_code},
          {"environment", environment_json()},
          {"phase", to_string(options.phase)},
          {"baseline", baseline},
          {"warmup", options.warmup},
          {"repeat", options.repeat},
          {"min_seconds", options.min_seconds},
          {"cases", std::move(list)}};
}

}  // namespace plumbline::tools
