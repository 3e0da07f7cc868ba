#include <fmt/format.h>

#include <algorithm>

#include "golden/atomic_file.hpp"
#include "tools/plumbline/bench_baseline.hpp"
#include "tools/plumbline/bench_json.hpp"
#include "tools/plumbline/bench_text.hpp"
#include "tools/plumbline/case_options.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/interrupt.hpp"
#include "tools/plumbline/verdicts.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

struct BenchArguments {
  std::vector<std::string> cases, suites, implementations;
  std::string baseline = "reference", phase = "all", filter, json, max_memory, earlier;
  int repeat = 5, warmup = 1;
  double min_seconds = 1;
  bool no_dgemm = false, dry_run = false, quiet = false;
};

/// Who takes part: those asked for (default: all), each once, and the baseline, before them if it was not asked for.
struct Contestants {
  std::vector<const Implementation*> all;
  bool baseline_added = false;
};

/// A number that CLI::Range's comparisons do not let pass when it is NaN.
CLI::Validator seconds() {
  return {[](std::string& text) {
            double value = 0;
            return CLI::detail::lexical_cast(text, value) && value >= 0 && value <= 1e5
                       ? std::string()
                       : "got '" + text + "', allowed: seconds from 0 to 100000";
          },
          "in [0 - 100000]"};
}

Result<Contestants> collect_contestants(const BenchArguments& arguments) {
  auto asked = collect_implementations(arguments.implementations);
  if (!asked) return asked.error();
  auto baseline = collect_implementations({arguments.baseline});
  if (!baseline) return Error{baseline.error().code, baseline.error().message, "--baseline"};
  if (asked->empty()) *asked = implementations();
  Contestants contestants;
  contestants.baseline_added = std::find(asked->begin(), asked->end(), baseline->front()) == asked->end();
  if (contestants.baseline_added) contestants.all.push_back(baseline->front());
  for (const Implementation* one : *asked)
    if (std::find(contestants.all.begin(), contestants.all.end(), one) == contestants.all.end())
      contestants.all.push_back(one);
  return contestants;
}

std::vector<BenchCase> run_cases(const std::vector<Case>& cases, const Contestants& contestants, BenchOptions options,
                                 const BenchArguments& arguments) {
  ProgressBar bar(arguments.quiet);
  std::vector<BenchCase> results;
  options.cancelled = interrupted;
  bench::Rate before;
  if (!arguments.no_dgemm) before = bench::measure_dgemm();
  for (std::size_t i = 0; i < cases.size() && !interrupted(); ++i) {
    const std::string text = print(cases[i]);
    options.progress = [&](double fraction) {
      bar.show((static_cast<double>(i) + fraction) / static_cast<double>(cases.size()), text);
    };
    results.push_back(bench_case(cases[i], contestants.all, options));
    if (arguments.no_dgemm || interrupted()) continue;
    const bench::Rate after = bench::measure_dgemm();
    results.back().dgemm = bench::mean(before, after);
    before = after;
  }
  return results;
}

/// All verdicts, or those of what was asked for: without a baseline that was added.
std::vector<CaseVerdict> verdicts_of(const std::vector<BenchCase>& cases, std::size_t first) {
  std::vector<CaseVerdict> verdicts;
  for (const BenchCase& one : cases)
    for (std::size_t i = first; i < one.entries.size(); ++i) verdicts.push_back(one.entries[i].verdict);
  return verdicts;
}

/// Compares with the earlier report. Returns the exit code so far, or that of what it finds.
int report_changes(const EarlierBench& earlier, const std::vector<BenchCase>& results, const BenchArguments& arguments,
                   int code) {
  const std::vector<RatioChange> changes = compare_ratios(earlier, results, arguments.baseline);
  if (changes.empty()) {
    const int nothing =
        report_error({ErrorCode::kNothing, "none of its ratios was measured again: other cases or implementations",
                      arguments.earlier});
    return code == 0 ? nothing : code;
  }
  const auto grown = std::count_if(changes.begin(), changes.end(), [](const RatioChange& c) { return c.grown(); });
  if (!arguments.quiet || grown > 0) fmt::print("\n{}", change_table(changes));
  fmt::print("{} ratios compared with {}: {} grew by more than both runs scatter\n", changes.size(), arguments.earlier,
             grown);
  return grown > 0 ? exit_code(ErrorCode::kCheckFailed) : code;
}

int bench(const BenchArguments& arguments) {
  if (auto status = may_write("--json", arguments.json); !status) return report_error(status.error());
  BenchOptions options;
  options.phase = arguments.phase == "forward" ? Phase::kForward : Phase::kAll;
  options.warmup = arguments.warmup;
  options.repeat = arguments.repeat;
  options.min_seconds = arguments.min_seconds;
  auto cases = collect_cases(arguments.cases, arguments.suites, arguments.filter);
  if (!cases) return report_error(cases.error());
  const auto contestants = collect_contestants(arguments);
  if (!contestants) return report_error(contestants.error());
  if (cases->empty())
    return report_error({ErrorCode::kNothing, "no case is left after --filter: nothing was checked", "bench"});
  auto limit = memory_limit(arguments.max_memory);
  if (!limit) return report_error(limit.error());
  options.max_memory_bytes = *limit;
  std::optional<EarlierBench> earlier;
  if (!arguments.earlier.empty()) {
    auto loaded = load_earlier_bench(arguments.earlier, options.phase, arguments.baseline);
    if (!loaded) return report_error(loaded.error());
    earlier = std::move(*loaded);
  }
  if (arguments.dry_run) {
    std::vector<Job> jobs;
    for (const Case& item : *cases)
      for (const Implementation* implementation : contestants->all) jobs.push_back({item, implementation});
    return dry_run(jobs, options.max_memory_bytes, "bench");
  }

  const std::vector<BenchCase> results = run_cases(*cases, *contestants, options, arguments);
  if (interrupted()) return report_error({ErrorCode::kInterrupted, "interrupted; no report was written", "bench"});
  const std::vector<CaseVerdict> verdicts = verdicts_of(results, 0);
  int code = exit_code_of(verdicts);
  if (code == 0) code = exit_code_of(verdicts_of(results, contestants->baseline_added ? 1 : 0));
  if (!arguments.quiet)
    fmt::print("{}\n{}", bench_table(results, arguments.baseline), bench_notes(results, arguments.baseline));
  fmt::print("{}", untimed_reasons(results));
  for (const CaseVerdict& v : verdicts)
    if (v.outcome == Outcome::kFailed) fmt::print("\n{}", failure_report(v));
  report_case_errors(verdicts);
  fmt::print("{}\n", summary_line(verdicts));
  if (earlier) code = report_changes(*earlier, results, arguments, code);
  if (!arguments.json.empty()) {
    const std::string text = bench_json(results, arguments.baseline, options, code).dump(2) + "\n";
    if (auto status = golden::write_file(arguments.json, text); !status) return report_error(status.error());
  }
  return code;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  auto arguments = std::make_shared<BenchArguments>();
  CLI::App* command = app.add_subcommand(
      "bench", "Time implementations against each other on cases, each checked first: a wrong one is not timed");
  command->add_option("case", arguments->cases, "Case strings (sweeps allowed), as in 'csa,seq=37+3,pad=8'");
  command->add_option("--suite", arguments->suites,
                      "Suite by name (plumbline list suites) or a path ending in .suite; default: smoke");
  command->add_option("--impl", arguments->implementations,
                      "Implementation (plumbline list implementations); may be given again; default: all");
  command->add_option("--baseline", arguments->baseline,
                      "Implementation that the others' times are divided by, round by round; it takes part");
  command
      ->add_option("--phase", arguments->phase,
                   "forward: output and loss; all: with the gradients of hidden and all weights")
      ->check(CLI::IsMember({"forward", "all"}));
  command->add_option("--repeat", arguments->repeat, "Timed rounds, at least; in each, every implementation runs once")
      ->check(CLI::Range(1, static_cast<int>(kMaxRounds)));
  command
      ->add_option("--min-seconds", arguments->min_seconds,
                   "More rounds until a case's timed runs took that long together")
      ->check(seconds());
  command->add_option("--warmup", arguments->warmup, "Untimed rounds before; the first measures memory")
      ->check(CLI::Range(0, 1000));
  command->add_option("--filter", arguments->filter, "Keep cases whose printed form contains this text");
  command->add_flag("--no-dgemm", arguments->no_dgemm,
                    "Do not measure the rate of Eigen's dgemm before and after each case");
  command->add_flag("--dry-run", arguments->dry_run, "List cases with their memory estimate, run nothing");
  command->add_option("--json", arguments->json, "Write a JSON report (docs/bench-schema.md)")->check(not_empty());
  command
      ->add_option("--compare", arguments->earlier,
                   "JSON report of an earlier run: fail where a ratio has grown by more than both runs scatter")
      ->check(not_empty());
  command
      ->add_option("--max-memory", arguments->max_memory,
                   "Refuse cases that need more, as in 8G; default: 80 % of what is available")
      ->check(not_empty());
  command->add_flag("-q,--quiet", arguments->quiet, "Print failures and the summary only");
  command->footer(
      "Timed is the run of an implementation alone, asked for its output, loss and gradients and for no other stage:\n"
      "not the making of inputs, not the judging. Rounds interleave the implementations, so that a busy machine\n"
      "disturbs all alike; times of different runs are not comparable, ratios are. Every timed run must return the\n"
      "bits of the checked run; where equal bits are not promised, other ones are judged again.\n"
      "spread is the range of the middle half of the rounds over the median, memory what a run adds to the process.\n"
      "Examples:\n"
      "  plumbline bench 'csa,seq=64' --impl reference-fp32 --json old.json\n"
      "  plumbline bench 'csa,seq=64' --impl reference-fp32 --min-seconds 1 --no-dgemm\n"
      "  plumbline bench 'swa|csa' --impl reference --impl reference-wide --baseline reference --phase forward\n"
      "  plumbline bench --suite smoke --filter hca --dry-run\n"
      "Exit codes: plumbline explain exit-codes");
  command->callback([arguments, &exit_code] { exit_code = bench(*arguments); });
}

}  // namespace plumbline::tools
