#include "tools/plumbline/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "compare/sketch_rule.hpp"
#include "golden/golden_file.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

constexpr const char* kReference = "reference";
constexpr const char* kWideReference = "reference-wide";

const Implementation* truth_for(const Implementation& implementation) {
  return find_implementation(implementation.name() == kWideReference ? kReference : kWideReference);
}

/// Datasets whose bits are not those of the first run fail.
void note_repeat(const Results& first, const Results& again, CaseVerdict& verdict) {
  for (compare::DatasetVerdict& v : verdict.datasets) {
    const Tensor* a = first.find(v.id);
    const Tensor* b = again.find(v.id);
    if (a && b ? equal_bits(*a, *b) : a == b) continue;
    v.verdict = compare::Verdict::kFail;
    v.wrong = std::max<Index>(v.wrong, 1);
    v.reason = "differs from run to run";
  }
}

/// What the loss and its rows are judged by, besides what is wanted.
DatasetSet judged_by(const DatasetSet& wanted) {
  DatasetSet set;
  if (wanted.test(DatasetId::forward(StageId::kIndexerLoss).index()) ||
      wanted.test(DatasetId::forward(StageId::kKlRows).index()))
    for (const StageId stage : {StageId::kTeacher, StageId::kPredict, StageId::kIndexScores, StageId::kTopk})
      set.set(DatasetId::forward(stage).index());
  return set;
}

double results_bytes(const LayerConfig& config, const Packing& packing, const Request& request) {
  double bytes = 0;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const DatasetId id = DatasetId::from_index(i); request.wants(id)) {
      double elements = sizeof(double);
      for (const Axis axis : id.axes())
        if (axis != Axis::kNone) elements *= static_cast<double>(extent(axis, config, packing));
      bytes += elements;
    }
  return bytes;
}

Outcome outcome_of(const CaseVerdict& verdict) {
  if (verdict.failed() > 0) return Outcome::kFailed;
  return verdict.compared() > 0 ? Outcome::kPassed : Outcome::kNothingChecked;
}

}  // namespace

std::optional<DatasetSet> LoadedCase::stated() const {
  if (!expected && !sketches) return std::nullopt;
  DatasetSet set = expected ? expected->available() : DatasetSet();
  for (std::size_t i = 0; sketches && i < sketches->size(); ++i)
    if ((*sketches)[i]) set.set(i);
  return set;
}

Result<LoadedCase> load_case(const Case& item, double max_memory_bytes, const std::function<bool()>& cancelled) {
  if (!item.file.empty()) {
    // While a file is read, this process and the one that reads it for us both hold it.
    auto file =
        golden::read_guarded(item.file, max_memory_bytes > 0 ? max_memory_bytes / 2 : golden::kDefaultMemoryBytes,
                             golden::kDefaultSeconds, cancelled);
    if (!file) return file.error();
    LoadedCase loaded{std::move(file->problem), std::nullopt, std::nullopt};
    if (file->contents == golden::Contents::kSketch)
      loaded.sketches = std::move(file->sketches);
    else if (file->contents != golden::Contents::kSeed)
      loaded.expected = std::move(file->results);
    return loaded;
  }
  auto problem = make_problem(item);
  if (!problem) return problem.error();
  return LoadedCase{std::move(*problem), std::nullopt, std::nullopt};
}

Status allowed_memory(double bytes, double max_memory_bytes, const std::string& where) {
  if (max_memory_bytes <= 0 || bytes <= max_memory_bytes) return {};
  return Error{ErrorCode::kMemory,
               fmt::format("needs about {}, allowed {}; raise --max-memory or shorten the case", human_bytes(bytes),
                           human_bytes(max_memory_bytes)),
               where};
}

std::string_view word_for(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed: return "PASS";
    case Outcome::kFailed: return "FAIL";
    case Outcome::kDeclined: return "DECLINED";
    case Outcome::kError: return "ERROR";
    case Outcome::kNothingChecked: return "NOTHING";
  }
  return "";
}

const compare::DatasetVerdict* CaseVerdict::worst() const {
  const auto compared_share = [](const compare::DatasetVerdict& v) {
    return v.verdict == compare::Verdict::kNotCompared ? -1.0 : v.share();
  };
  const auto found = std::max_element(datasets.begin(), datasets.end(), [&](const auto& a, const auto& b) {
    return compared_share(a) < compared_share(b);
  });
  return found == datasets.end() || compared_share(*found) < 0 ? nullptr : &*found;
}

const compare::DatasetVerdict* CaseVerdict::first_wrong() const {
  const auto found = std::find_if(datasets.begin(), datasets.end(),
                                  [](const auto& v) { return v.verdict == compare::Verdict::kFail; });
  return found == datasets.end() ? nullptr : &*found;
}

Index CaseVerdict::compared() const {
  return std::count_if(datasets.begin(), datasets.end(),
                       [](const auto& v) { return v.verdict != compare::Verdict::kNotCompared; });
}

Index CaseVerdict::failed() const {
  return std::count_if(datasets.begin(), datasets.end(),
                       [](const auto& v) { return v.verdict == compare::Verdict::kFail; });
}

namespace {

/// A part of the whole progress, as a progress of its own.
std::function<void(double)> part_of(const std::function<void(double)>& progress, double from, double to) {
  if (!progress) return {};
  return [progress, from, to](double fraction) { progress(from + (to - from) * fraction); };
}

/// The judge's shares in the form that tables and exit codes take.
std::vector<compare::DatasetVerdict> as_verdicts(const compare::Judgement& judgement) {
  std::vector<compare::DatasetVerdict> verdicts;
  for (const compare::DatasetJudgement& j : judgement.datasets) {
    compare::DatasetVerdict v{.id = j.id};
    v.error = std::max(j.isolated, j.verdict == compare::StageVerdict::kInherited ? 0.0 : j.chained);
    v.limit = 1;
    v.compared = j.elements;
    v.wrong = j.wrong;
    v.worst = j.worst;
    v.got = j.got;
    v.want = j.want;
    v.reason = j.reason;
    v.verdict = j.verdict == compare::StageVerdict::kNotJudged ? compare::Verdict::kNotCompared
                : j.verdict == compare::StageVerdict::kFail    ? compare::Verdict::kFail
                                                               : compare::Verdict::kPass;
    verdicts.push_back(std::move(v));
  }
  return verdicts;
}

Results subset(const Results& results, const DatasetSet& wanted) {
  Results part;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const DatasetId id = DatasetId::from_index(i); wanted.test(i) && results.has(id)) part.set(id, results.at(id));
  return part;
}

/// A case of a profile below double precision, by the judge.
Status judge_precision(const Problem& problem, const PrecisionProfile& profile, const Implementation& implementation,
                       const RunOptions& options, CaseVerdict& verdict) {
  compare::JudgeOptions judge_options;
  judge_options.cancelled = options.cancelled;
  auto truth = compare::make_truth(problem, profile, judge_options);
  if (!truth) return truth.error();
  if (options.progress) options.progress(0.9);
  verdict.truth = "reference";
  auto results = implementation.run(truth->problem, truth->request);
  if (!results) return results.error();
  verdict.kept = subset(*results, options.keep);
  Results judged = *results;
  for (std::size_t i = 0; options.only && i < DatasetId::kCount; ++i)
    if (!options.only->test(i)) judged.erase(DatasetId::from_index(i));
  auto judgement = compare::judge(*truth, profile, judged);
  if (!judgement) return judgement.error();
  verdict.datasets = as_verdicts(*judgement);
  if (judgement->failed > 0) verdict.judged_problem = std::move(truth->problem);
  verdict.judgement = std::move(*judgement);
  for (verdict.repeat = 1; verdict.repeat < options.repeat; ++verdict.repeat) {
    auto repeated =
        implementation.run(verdict.judged_problem ? *verdict.judged_problem : truth->problem, truth->request);
    if (!repeated) return repeated.error();
    note_repeat(*results, *repeated, verdict);
  }
  verdict.outcome = outcome_of(verdict);
  return {};
}

/// Fills the verdict; an error is what stopped it.
Status judge(const Case& item, const Implementation& implementation, const RunOptions& options, CaseVerdict& verdict) {
  verdict.precision = item.precision != "fp64" ? item.precision : implementation.profile();
  if (item.precision != "fp64" && implementation.profile() == "fp64")
    return Error{ErrorCode::kDeclined,
                 "computes in double precision; cases of profile " + item.precision +
                     " need an implementation of that precision",
                 implementation.name()};
  if (item.file.empty())
    if (auto status = fits_memory(item, implementation, options.max_memory_bytes); !status) return status;
  auto loaded = load_case(item, options.max_memory_bytes, options.cancelled);
  if (!loaded) return loaded.error();
  const Problem& problem = loaded->problem;
  if (auto status = implementation.supports(problem.config, problem.packing); !status) return status;
  if (verdict.precision != "fp64")
    return judge_precision(problem, *find_precision_profile(verdict.precision), implementation, options, verdict);

  const DatasetSet layer = all_datasets(problem.config);
  const std::optional<DatasetSet> stated = loaded->stated();
  if (!stated && !item.file.empty() && options.fingerprints_suffice) {
    verdict.truth = "file";
    verdict.outcome = Outcome::kPassed;
    return {};
  }
  DatasetSet wanted = stated ? *stated : layer;
  if (options.only) wanted &= *options.only;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (layer.test(i) && (!options.only || options.only->test(i)) && !wanted.test(i))
      verdict.absent.push_back(DatasetId::from_index(i).path());
  Request request;
  request.wanted = wanted | (judged_by(wanted) & layer);
  request.cancelled = options.cancelled;
  if (!item.file.empty()) {
    const double bytes = implementation.memory_bytes(problem.config, problem.packing, request) +
                         (loaded->expected ? results_bytes(problem.config, problem.packing, request) : 0);
    if (auto status = allowed_memory(bytes, options.max_memory_bytes, item.file); !status) return status;
  }

  // The wide type takes most of the time.
  const double split = stated ? 0 : 0.8 / options.repeat;
  std::optional<Results> truth = std::move(loaded->expected);
  verdict.truth = "file";
  if (!stated) {
    const Implementation* reference = truth_for(implementation);
    verdict.truth = reference->name();
    request.progress = part_of(options.progress, 0, split);
    auto results = reference->run(problem, request);
    if (!results) return results.error();
    truth = std::move(*results);
  }
  const double step = (1 - split) / options.repeat;
  request.progress = part_of(options.progress, split, split + step);
  auto results = implementation.run(problem, request);
  if (!results) return results.error();
  verdict.kept = subset(*results, options.keep);
  compare::Limits limits;
  limits.kl_by_condition = !stated;
  verdict.datasets = truth ? compare::compare_by_golden_rule(problem, *truth, *results, limits)
                           : compare::compare_by_sketch_rule(problem, *loaded->sketches, *results, limits);
  std::erase_if(verdict.datasets, [&](const compare::DatasetVerdict& v) { return !wanted.test(v.id.index()); });
  truth.reset();
  for (verdict.repeat = 1; verdict.repeat < options.repeat; ++verdict.repeat) {
    request.progress = part_of(options.progress, split + step * verdict.repeat, split + step * (verdict.repeat + 1));
    auto repeated = implementation.run(problem, request);
    if (!repeated) return repeated.error();
    note_repeat(*results, *repeated, verdict);
  }
  verdict.outcome = outcome_of(verdict);
  return {};
}

}  // namespace

CaseVerdict run_case(const Case& item, const Implementation& implementation, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CaseVerdict verdict;
  verdict.case_text = print(item);
  verdict.implementation = implementation.name();
  const Status status =
      without_exceptions(verdict.case_text, [&] { return judge(item, implementation, options, verdict); });
  if (!status) {
    verdict.outcome = status.error().code == ErrorCode::kDeclined      ? Outcome::kDeclined
                      : status.error().code == ErrorCode::kCheckFailed ? Outcome::kFailed
                                                                       : Outcome::kError;
    verdict.problem = status.error();
  }
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return verdict;
}

namespace {

/// What a whole run of an implementation takes, with its results, and these alone.
struct RunBytes {
  double own = 0, results = 0;
};

Result<RunBytes> run_bytes(const Case& item, const Implementation& implementation) {
  // Checked on the problem alone first, so that a batch that could never fit is not even laid out.
  const double problem = problem_bytes(item);
  if (problem > 1e12)
    return Error{ErrorCode::kMemory, "needs " + human_bytes(problem) + " for the inputs and weights alone",
                 print(item)};
  Request request;
  request.wanted = all_datasets(item.config);
  const Packing packing = make_packing(item);
  return RunBytes{implementation.memory_bytes(item.config, packing, request),
                  results_bytes(item.config, packing, request)};
}

Status fits(const Result<double>& bytes, double max_memory_bytes, const Case& item) {
  if (!bytes) return bytes.error();
  return allowed_memory(*bytes, max_memory_bytes, print(item));
}

}  // namespace

Result<double> estimate_memory_bytes(const Case& item, const Implementation& implementation) {
  if (!item.file.empty()) return 0.0;
  const auto run = run_bytes(item, implementation);
  if (!run) return run.error();
  const auto truth = run_bytes(item, *truth_for(implementation));
  if (!truth) return truth.error();
  // The judge holds truth, values and budgets, isolated and chained, of a member and of the candidate.
  if (implementation.profile() != "fp64") return std::max(run->own, truth->own) + 8 * run->results;
  return std::max(run->own + run->results, truth->own);
}

Result<double> estimate_run_bytes(const Case& item, const Implementation& implementation) {
  const auto run = run_bytes(item, implementation);
  if (!run) return run.error();
  return run->own;
}

Status fits_memory(const Case& item, const Implementation& implementation, double max_memory_bytes) {
  return fits(estimate_memory_bytes(item, implementation), max_memory_bytes, item);
}

Status run_fits_memory(const Case& item, const Implementation& implementation, double max_memory_bytes) {
  return fits(estimate_run_bytes(item, implementation), max_memory_bytes, item);
}

Result<double> memory_limit(const std::string& option) {
  if (!option.empty()) return parse_bytes(option);
  return 0.8 * available_memory_bytes();
}

int exit_code_of(const std::vector<CaseVerdict>& verdicts) {
  const auto any = [&](Outcome outcome) {
    return std::any_of(verdicts.begin(), verdicts.end(), [&](const CaseVerdict& v) { return v.outcome == outcome; });
  };
  if (any(Outcome::kFailed)) return exit_code(ErrorCode::kCheckFailed);
  for (const CaseVerdict& v : verdicts)
    if (v.outcome == Outcome::kError) return exit_code(v.problem->code);
  if (any(Outcome::kNothingChecked) || verdicts.empty()) return exit_code(ErrorCode::kNothing);
  return any(Outcome::kPassed) ? 0 : exit_code(ErrorCode::kDeclined);
}

}  // namespace plumbline::tools
