#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>
#include <thread>

#include "tools/plumbline/case_options.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/interrupt.hpp"
#include "tools/plumbline/report.hpp"
#include "tools/plumbline/verdicts.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

struct VerifyOptions {
  std::vector<std::string> cases, suites, implementations, stages;
  std::string filter, shard, json, max_memory;
  int jobs = 1, repeat = 1;
  bool dry_run = false, quiet = false, verbose = false;
};

Result<std::optional<DatasetSet>> collect_stages(const VerifyOptions& options) {
  if (options.stages.empty()) return std::optional<DatasetSet>();
  DatasetSet only;
  for (const std::string& name : options.stages) {
    if (const auto stage = find_stage(name)) {
      only.set(DatasetId::forward(*stage).index());
      only.set(DatasetId::gradient(*stage).index());
    } else if (const auto weight = find_weight(name)) {
      only.set(DatasetId::gradient(*weight).index());
    } else if (const auto dataset = find_dataset(name)) {
      only.set(dataset->index());
    } else {
      return usage_error("--stage",
                         "unknown stage '" + name + "'; known ones: plumbline list stages, plumbline list weights");
    }
  }
  return std::optional<DatasetSet>(only);
}

/// "2/5" keeps every fifth job, starting with the second.
Status apply_shard(const std::string& shard, std::vector<Job>& jobs) {
  if (shard.empty()) return {};
  std::size_t index = 0, count = 0;
  const char* end = shard.data() + shard.size();
  const auto [slash, bad_index] = std::from_chars(shard.data(), end, index);
  const bool split = bad_index == std::errc() && slash != end && *slash == '/';
  const auto [rest, bad_count] = std::from_chars(split ? slash + 1 : end, end, count);
  if (!split || bad_count != std::errc() || rest != end || index < 1 || index > count)
    return usage_error("--shard", "got '" + shard + "', allowed: i/n with 1 <= i <= n, as in 2/5");
  std::vector<Job> kept;
  for (std::size_t i = index - 1; i < jobs.size(); i += std::min(count, jobs.size())) kept.push_back(jobs[i]);
  jobs = std::move(kept);
  return {};
}

Result<std::vector<Job>> collect_jobs(const VerifyOptions& options) {
  auto cases = collect_cases(options.cases, options.suites, options.filter);
  if (!cases) return cases.error();
  auto chosen = collect_implementations(options.implementations);
  if (!chosen) return chosen.error();
  if (chosen->empty()) chosen->push_back(find_implementation("reference"));
  std::vector<Job> jobs;
  for (const Case& item : *cases)
    for (const Implementation* implementation : *chosen) jobs.push_back({item, implementation});
  if (auto status = apply_shard(options.shard, jobs); !status) return status.error();
  return jobs;
}

/// Runs the jobs on `threads` workers; verdicts come back in the order of the jobs.
std::vector<CaseVerdict> run_jobs(const std::vector<Job>& jobs, const VerifyOptions& options, RunOptions run) {
  std::vector<CaseVerdict> verdicts(jobs.size());
  std::vector<char> done(jobs.size(), 0);
  std::atomic<std::size_t> next = 0, finished = 0;
  std::mutex console;
  ProgressBar bar(options.quiet);
  const int workers = std::max(1, std::min<int>(options.jobs, static_cast<int>(jobs.size())));
  const int threads = std::max(1, omp_get_max_threads() / workers);
  run.cancelled = interrupted;
  const auto work = [&] {
    omp_set_num_threads(threads);
    for (std::size_t i = next++; i < jobs.size() && !interrupted(); i = next++) {
      const std::string text = print(jobs[i].item);
      RunOptions mine = run;
      mine.progress = [&](double fraction) {
        const std::lock_guard lock(console);
        bar.show((static_cast<double>(finished) + fraction) / static_cast<double>(jobs.size()), text);
      };
      if (options.verbose) {
        const std::lock_guard lock(console);
        bar.clear();
        fmt::print("plumbline verify '{}' --impl {}\n", text, jobs[i].implementation->name());
        std::fflush(stdout);
      }
      verdicts[i] = run_case(jobs[i].item, *jobs[i].implementation, mine);
      done[i] = 1;
      ++finished;
    }
  };
  std::vector<std::thread> pool;
  for (int w = 1; w < workers; ++w) pool.emplace_back(work);
  work();
  for (std::thread& thread : pool) thread.join();
  std::vector<CaseVerdict> kept;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    if (done[i]) kept.push_back(std::move(verdicts[i]));
  return kept;
}

int verify(const VerifyOptions& options) {
  if (auto status = may_write("--json", options.json); !status) return report_error(status.error());
  auto jobs = collect_jobs(options);
  if (!jobs) return report_error(jobs.error());
  auto only = collect_stages(options);
  if (!only) return report_error(only.error());
  if (jobs->empty())
    return report_error(
        {ErrorCode::kNothing, "no case is left after --filter and --shard: nothing was checked", "verify"});
  RunOptions run;
  run.only = *only;
  run.repeat = options.repeat;
  auto limit = memory_limit(options.max_memory);
  if (!limit) return report_error(limit.error());
  run.max_memory_bytes = *limit;
  run.max_memory_bytes /= std::max<double>(1, std::min<double>(options.jobs, static_cast<double>(jobs->size())));
  if (options.dry_run) return dry_run(*jobs, run.max_memory_bytes, "verify");

  const std::vector<CaseVerdict> verdicts = run_jobs(*jobs, options, run);
  if (interrupted()) return report_error({ErrorCode::kInterrupted, "interrupted; no report was written", "verify"});
  const int code = exit_code_of(verdicts);
  if (!options.quiet) fmt::print("{}", verdict_table(verdicts));
  for (const CaseVerdict& v : verdicts) {
    if (!options.quiet) fmt::print("{}", notes(v));
    if (v.outcome == Outcome::kDeclined)
      fmt::print("\n{}  {}  {}\n", coloured(word_for(v.outcome)), v.case_text, v.problem->text());
    if (v.outcome == Outcome::kFailed) fmt::print("\n{}", failure_report(v));
  }
  report_case_errors(verdicts);
  fmt::print("\n{}\n", summary_line(verdicts));
  if (!options.json.empty())
    if (auto status = write_report(options.json, verdicts, code); !status) return report_error(status.error());
  return code;
}

}  // namespace

void add_verify_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command =
      app.add_subcommand("verify", "Run conformance cases against implementations and judge every stage and gradient");
  command->add_option("case", options->cases, "Case strings (sweeps allowed), as in 'csa,seq=37+3,pad=8'");
  command->add_option("--suite", options->suites,
                      "Suite by name (plumbline list suites) or a path ending in .suite; default: smoke");
  command->add_option("--impl", options->implementations,
                      "Implementation (plumbline list implementations); default: reference");
  command->add_option("--stage", options->stages,
                      "Compare only this stage, weight gradient or dataset; may be given again");
  command->add_option("--filter", options->filter, "Keep cases whose printed form contains this text");
  command->add_option("-j,--jobs", options->jobs, "Cases at a time; threads are shared among them")
      ->check(CLI::Range(1, 1024));
  command->add_option("--shard", options->shard, "i/n: run the i-th of n parts of the list");
  command->add_flag("--dry-run", options->dry_run, "List cases with their memory estimate, run nothing");
  command->add_option("--repeat", options->repeat, "Run each case n times and demand equal bits")
      ->check(CLI::Range(1, 1000));
  command->add_option("--json", options->json, "Write a JSON report (docs/report-schema.md)")->check(not_empty());
  command
      ->add_option("--max-memory", options->max_memory,
                   "Refuse cases that need more, as in 8G; default: 80 % of what is available")
      ->check(not_empty());
  command->add_flag("-q,--quiet", options->quiet, "Print failures and the summary only");
  command->add_flag("-v,--verbose", options->verbose, "Print each case's command before it runs");
  command->footer(
      "Examples:\n"
      "  plumbline verify\n"
      "  plumbline verify 'csa,seq=37+3+4,pad=8' 'hca' --repeat 2\n"
      "  plumbline verify 'csa,seq=8..12,loss=sparse|dense' --stage compressed_kv -j 2\n"
      "  plumbline verify --suite smoke --filter csa --dry-run\n"
      "Exit codes: plumbline explain exit-codes");
  command->callback([options, &exit_code] { exit_code = verify(*options); });
}

}  // namespace plumbline::tools
