#include "tools/plumbline/bench_baseline.hpp"

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/plumbline/bench_json.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

/// A ratio of a report; absent where it is null or no summary.
std::optional<Summary> ratio_of(const nlohmann::json& entry) {
  if (!entry.contains("ratio") || !entry["ratio"].is_object()) return std::nullopt;
  const nlohmann::json& ratio = entry["ratio"];
  const auto number = [&](const char* key) { return ratio.contains(key) && ratio[key].is_number(); };
  for (const char* key : {"median", "min", "max", "lower_quartile", "upper_quartile"})
    if (!number(key)) return std::nullopt;
  return Summary{ratio["median"].get<double>(), ratio["min"].get<double>(), ratio["max"].get<double>(),
                 ratio["lower_quartile"].get<double>(), ratio["upper_quartile"].get<double>()};
}

std::string text_of(const nlohmann::json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}

}  // namespace

Result<EarlierBench> load_earlier_bench(const std::string& path, Phase phase, const std::string& baseline) {
  std::ifstream file(path, std::ios::binary);
  const nlohmann::json report = nlohmann::json::parse(file, nullptr, false);
  if (!file.is_open() || report.is_discarded()) return file_error(path, "is not a readable JSON report");
  if (text_of(report, "kind") != "bench" || !report.contains("cases") || !report["cases"].is_array())
    return file_error(path, "is not a report of plumbline bench; write one with plumbline bench ... --json FILE");
  if (report.value("schema_version", nlohmann::json()) != kBenchSchemaVersion)
    return file_error(path, fmt::format("has another schema version, allowed: {}; write it again with this program",
                                        kBenchSchemaVersion));
  if (const std::string got = text_of(report, "phase"); got != to_string(phase))
    return file_error(path, fmt::format("was made with --phase {}, got --phase {}", got, to_string(phase)));
  if (const std::string got = text_of(report, "baseline"); got != baseline)
    return file_error(path, fmt::format("was made with --baseline {}, got --baseline {}", got, baseline));
  EarlierBench earlier;
  for (const nlohmann::json& one : report["cases"]) {
    if (!one.is_object() || !one.contains("implementations") || !one["implementations"].is_array()) continue;
    for (const nlohmann::json& entry : one["implementations"])
      if (entry.is_object())
        if (const auto ratio = ratio_of(entry))
          earlier.ratios[text_of(one, "case")][text_of(entry, "implementation")] = *ratio;
  }
  return earlier;
}

std::vector<RatioChange> compare_ratios(const EarlierBench& earlier, const std::vector<BenchCase>& cases,
                                        const std::string& baseline) {
  std::vector<RatioChange> changes;
  for (const BenchCase& one : cases) {
    const auto known = earlier.ratios.find(one.case_text);
    const BenchEntry* base = one.find(baseline);
    if (known == earlier.ratios.end() || !base) continue;
    for (const BenchEntry& entry : one.entries) {
      const auto before = known->second.find(entry.implementation->name());
      if (&entry == base || before == known->second.end()) continue;
      const std::vector<double> ratios = round_ratios(entry.seconds, base->seconds);
      if (!ratios.empty()) changes.push_back({one.case_text, before->first, before->second, summarise(ratios)});
    }
  }
  return changes;
}

std::string change_table(const std::vector<RatioChange>& changes) {
  TextTable table({"case", "implementation", ">ratio before", ">now", ">may grow by", "verdict"});
  for (const RatioChange& change : changes)
    table.add({change.case_text, change.implementation, fmt::format("{:.3f}", change.before.median),
               fmt::format("{:.3f}", change.now.median),
               fmt::format("{:.3f}", change.before.width() + change.now.width()),
               coloured(change.grown() ? "GREW" : "PASS")});
  return table.plain();
}

}  // namespace plumbline::tools
