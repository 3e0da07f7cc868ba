#include "tools/plumbline/bench_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tools/plumbline/bench_statistics.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {
namespace {

std::string_view word_of(const BenchEntry& entry) {
  return entry.verdict.outcome == Outcome::kFailed ? "WRONG" : word_for(entry.verdict.outcome);
}

std::string milliseconds(double seconds) { return fmt::format("{:.4g}", seconds * 1e3); }

/// Four digits, without an exponent.
std::string rate(double value) { return fmt::format("{:.{}f}", value, value < 10 ? 2 : value < 100 ? 1 : 0); }

}  // namespace

std::string bench_table(const std::vector<BenchCase>& cases, const std::string& baseline) {
  TextTable table({"case", "implementation", "profile", "verdict", ">rounds", ">ms", ">min", ">max", ">spread",
                   ">ratio", ">range", ">tokens/s", ">GFLOP/s", ">of dgemm", ">memory"});
  for (const BenchCase& one : cases) {
    const BenchEntry* base = one.find(baseline);
    for (const BenchEntry& entry : one.entries) {
      std::vector<std::string> row = {one.case_text, entry.implementation->name(), entry.verdict.precision,
                                      coloured(word_of(entry))};
      if (!entry.seconds.empty()) {
        const Summary time = summarise(entry.seconds);
        const double operations_per_second = one.operations / time.median;
        row.insert(row.end(),
                   {fmt::format("{}", entry.seconds.size()), milliseconds(time.median), milliseconds(time.min),
                    milliseconds(time.max), fmt::format("{:.0f} %", 100 * time.spread())});
        const Summary ratio = summarise(round_ratios(entry.seconds, base ? base->seconds : std::vector<double>()));
        row.push_back(ratio.median > 0 ? fmt::format("{:.3f}", ratio.median) : "");
        row.push_back(ratio.median > 0 && &entry != base ? fmt::format("{:.3g}..{:.3g}", ratio.min, ratio.max) : "");
        row.push_back(fmt::format("{:.0f}", static_cast<double>(one.tokens) / time.median));
        row.push_back(one.operations > 0 ? rate(operations_per_second * 1e-9) : "");
        row.push_back(one.operations > 0 && one.dgemm
                          ? fmt::format("{:.0f} %", 100 * operations_per_second / one.dgemm->per_second)
                          : "");
        row.push_back(entry.memory_bytes ? human_bytes(*entry.memory_bytes) : "");
      }
      table.add(std::move(row));
    }
  }
  return table.plain();
}

std::string bench_notes(const std::vector<BenchCase>& cases, const std::string& baseline) {
  std::string text;
  double slowest = 0, fastest = 0;
  for (const BenchCase& one : cases) {
    if (!one.dgemm) continue;
    slowest = slowest > 0 ? std::min(slowest, one.dgemm->per_second) : one.dgemm->per_second;
    fastest = std::max(fastest, one.dgemm->per_second);
  }
  if (fastest > 0)
    text += fmt::format("dgemm in this run: {} to {} GFLOP/s\n", rate(slowest * 1e-9), rate(fastest * 1e-9));
  for (const BenchCase& one : cases) {
    const BenchEntry* base = one.find(baseline);
    for (const BenchEntry& entry : one.entries) {
      if (!entry.seconds.empty() && !entry.same_bits)
        text += fmt::format("{}: {} returned other bits when timed; it promises no equal ones, and they pass too\n",
                            one.case_text, entry.implementation->name());
    }
    const bool timed = std::any_of(one.entries.begin(), one.entries.end(),
                                   [](const BenchEntry& entry) { return !entry.seconds.empty(); });
    if (timed && (!base || base->seconds.empty()))
      text += fmt::format("{}: no ratios, as the baseline {} was not timed\n", one.case_text, baseline);
  }
  return text;
}

std::string untimed_reasons(const std::vector<BenchCase>& cases) {
  std::string text;
  for (const BenchCase& one : cases)
    for (const BenchEntry& entry : one.entries) {
      const bool said =
          entry.verdict.outcome == Outcome::kDeclined || entry.verdict.outcome == Outcome::kNothingChecked;
      if (said && entry.verdict.problem)
        text += fmt::format("{}  {}  {}\n", coloured(word_of(entry)), one.case_text, entry.verdict.problem->text());
    }
  return text;
}

}  // namespace plumbline::tools
