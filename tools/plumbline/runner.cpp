#include "tools/plumbline/runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "golden/golden_file.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

constexpr const char* kReference = "reference";
constexpr const char* kWideReference = "reference-wide";

/// A case with its numbers, and the results it must give where a file holds them.
struct LoadedCase {
  Problem problem;
  std::optional<Results> expected;
};

Result<LoadedCase> load(const Case& item) {
  if (!item.file.empty()) {
    auto file = golden::read_guarded(item.file);
    if (!file) return file.error();
    return LoadedCase{std::move(file->problem), std::move(file->results)};
  }
  auto problem = make_problem(item);
  if (!problem) return problem.error();
  return LoadedCase{std::move(*problem), std::nullopt};
}

const Implementation* truth_for(const Implementation& implementation) {
  return find_implementation(implementation.name() == kWideReference ? kReference : kWideReference);
}

/// First dataset whose bits differ between two runs.
std::optional<DatasetId> first_difference(const Results& a, const Results& b) {
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    const Tensor *x = a.find(id), *y = b.find(id);
    if ((x == nullptr) != (y == nullptr)) return id;
    if (x && (x->shape() != y->shape() ||
              std::memcmp(x->data(), y->data(), static_cast<std::size_t>(x->size()) * sizeof(double)) != 0))
      return id;
  }
  return std::nullopt;
}

void note_repeat(const Results& first, const Results& again, CaseVerdict& verdict) {
  const auto id = first_difference(first, again);
  if (!id) return;
  for (compare::DatasetVerdict& v : verdict.datasets) {
    if (!(v.id == *id)) continue;
    v.verdict = compare::Verdict::kFail;
    v.wrong = std::max<Index>(v.wrong, 1);
    v.reason = "differs from run to run";
  }
}

Outcome outcome_of(const CaseVerdict& verdict) {
  if (verdict.failed() > 0) return Outcome::kFailed;
  return verdict.compared() > 0 ? Outcome::kPassed : Outcome::kNothingChecked;
}

}  // namespace

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

CaseVerdict run_case(const Case& item, const Implementation& implementation, const RunOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CaseVerdict verdict;
  verdict.case_text = print(item);
  verdict.implementation = implementation.name();
  const auto stopped = [&](Outcome outcome, Error error) {
    verdict.outcome = outcome;
    verdict.problem = std::move(error);
    return verdict;
  };
  if (item.precision != "fp64")
    return stopped(Outcome::kDeclined, {ErrorCode::kDeclined,
                                        "computes in double precision; cases of profile " + item.precision +
                                            " need an implementation of that precision",
                                        implementation.name()});
  if (item.file.empty()) {
    auto bytes = estimate_memory_bytes(item, implementation);
    if (!bytes) return stopped(Outcome::kError, bytes.error());
    if (options.max_memory_bytes > 0 && *bytes > options.max_memory_bytes)
      return stopped(Outcome::kError,
                     {ErrorCode::kMemory,
                      fmt::format("needs about {:.2f} GiB, allowed {:.2f} GiB; raise --max-memory or shorten the case",
                                  *bytes / 0x1p30, options.max_memory_bytes / 0x1p30),
                      verdict.case_text});
  }
  auto loaded = load(item);
  if (!loaded) return stopped(Outcome::kError, loaded.error());
  const Problem& problem = loaded->problem;
  if (auto status = implementation.supports(problem.config, problem.packing); !status)
    return stopped(Outcome::kDeclined, status.error());

  const DatasetSet layer = all_datasets(problem.config);
  Request request;
  request.wanted = loaded->expected ? loaded->expected->available() : layer;
  if (options.only) request.wanted &= *options.only;
  request.progress = options.progress;
  request.cancelled = options.cancelled;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (layer.test(i) && (!options.only || options.only->test(i)) && !request.wanted.test(i))
      verdict.absent.push_back(DatasetId::from_index(i).path());

  std::optional<Results> truth = std::move(loaded->expected);
  verdict.truth = "file";
  if (!truth) {
    const Implementation* reference = truth_for(implementation);
    verdict.truth = reference->name();
    auto results = reference->run(problem, request);
    if (!results) return stopped(Outcome::kError, results.error());
    truth = std::move(*results);
  } else if (options.only) {
    for (std::size_t i = 0; i < DatasetId::kCount; ++i)
      if (!options.only->test(i)) truth->erase(DatasetId::from_index(i));
  }
  auto results = implementation.run(problem, request);
  if (!results) return stopped(Outcome::kError, results.error());
  compare::Limits limits;
  limits.kl_by_condition = item.file.empty();
  verdict.datasets = compare::compare_by_golden_rule(problem, *truth, *results, limits);
  for (int again = 1; again < options.repeat; ++again) {
    auto repeated = implementation.run(problem, request);
    if (!repeated) return stopped(Outcome::kError, repeated.error());
    note_repeat(*results, *repeated, verdict);
  }
  verdict.outcome = outcome_of(verdict);
  verdict.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return verdict;
}

Result<double> estimate_memory_bytes(const Case& item, const Implementation& implementation) {
  if (!item.file.empty()) return 0.0;
  Request request;
  request.wanted = all_datasets(item.config);
  // Checked on the problem alone first, so that a batch that could never fit is not even laid out.
  const double problem = problem_bytes(item);
  if (problem > 1e12)
    return Error{ErrorCode::kMemory, fmt::format("the inputs and weights alone take {:.0f} GB", problem / 1e9),
                 print(item)};
  const Packing packing = make_packing(item);
  const double own = implementation.memory_bytes(item.config, packing, request);
  const double truth = truth_for(implementation)->memory_bytes(item.config, packing, request);
  double results = 0;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const DatasetId id = DatasetId::from_index(i); request.wants(id)) {
      double elements = 8;
      for (const Axis axis : id.axes())
        if (axis != Axis::kNone) elements *= static_cast<double>(extent(axis, item.config, packing));
      results += elements;
    }
  return std::max(own + results, truth);
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
