#include "tools/plumbline/bench_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "bench/layer_request.hpp"
#include "compare/unravel.hpp"
#include "reference/operation_count.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

DatasetSet forward_datasets() {
  DatasetSet set;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) set.set(i, DatasetId::from_index(i).is_forward());
  return set;
}

double bytes_of(const Results& results) {
  double bytes = 0;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const Tensor* tensor = results.find(DatasetId::from_index(i)))
      bytes += static_cast<double>(tensor->size()) * sizeof(double);
  return bytes;
}

double bytes_of(const Problem& problem) {
  double elements = static_cast<double>(problem.hidden.size() + problem.grad_out.size());
  for (const Tensor& weight : problem.weights) elements += static_cast<double>(weight.size());
  return elements * sizeof(double);
}

double kept_bytes(const BenchCase& result) {
  return std::accumulate(result.entries.begin(), result.entries.end(), 0.0,
                         [](double sum, const BenchEntry& entry) { return sum + bytes_of(entry.verdict.kept); });
}

void stop(BenchEntry& entry, Outcome outcome, Error error) {
  entry.verdict.outcome = outcome;
  entry.verdict.problem = std::move(error);
}

/// An implementation that passed, but some of whose timed results nothing has judged, is not timed.
void demand_judged_results(BenchEntry& entry, const DatasetSet& timed) {
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    if (!timed.test(i)) continue;
    const std::string path = DatasetId::from_index(i).path();
    const auto& absent = entry.verdict.absent;
    if (std::find(absent.begin(), absent.end(), path) != absent.end())
      return stop(entry, Outcome::kNothingChecked,
                  {ErrorCode::kNothing,
                   "the truth holds no " + path + ", so what is timed cannot be checked; --phase forward times less",
                   entry.verdict.case_text});
    if (!entry.verdict.kept.has(DatasetId::from_index(i)))
      return stop(entry, Outcome::kDeclined,
                  {ErrorCode::kDeclined, "returns no " + path + ", which is timed; --phase forward times less",
                   entry.verdict.implementation});
  }
}

/// Returns what a timed run did return, to be judged like any other run.
class Replay final : public Implementation {
 public:
  Replay(const Implementation& original, const Results& results) : original_(original), results_(results) {}

  std::string name() const override { return original_.name(); }
  std::string description() const override { return original_.description(); }
  std::string profile() const override { return original_.profile(); }
  Promises promises() const override { return original_.promises(); }
  Status supports(const LayerConfig& config, const Packing& packing) const override {
    return original_.supports(config, packing);
  }
  double memory_bytes(const LayerConfig& config, const Packing& packing, const Request& request) const override {
    return original_.memory_bytes(config, packing, request);
  }
  Result<Results> run(const Problem&, const Request&) const override { return results_; }

 private:
  const Implementation& original_;
  const Results& results_;
};

/// The first element whose bits differ, with both values.
void note_difference(const Tensor* checked, const Tensor* timed, compare::DatasetVerdict& v) {
  v.verdict = compare::Verdict::kFail;
  v.wrong = std::max<Index>(v.wrong, 1);
  v.reason = "a timed run differs from the checked one, although the same bits from run to run are promised";
  if (!checked || !timed || checked->shape() != timed->shape()) return;
  const auto bits_differ = [](double a, double b) { return std::memcmp(&a, &b, sizeof a) != 0; };
  Index at = 0;
  while (at < checked->size() && !bits_differ((*checked)[at], (*timed)[at])) ++at;
  if (at == checked->size()) return;
  v.worst = compare::unravel(at, checked->shape());
  v.got = (*timed)[at];
  v.want = (*checked)[at];
}

/// One case while it is measured.
class CaseBench {
 public:
  CaseBench(const Case& item, const BenchOptions& options, BenchCase& result)
      : item_(item), options_(options), result_(result) {
    if (options_.phase == Phase::kForward) checked_ = forward_datasets();
    request_ = bench::layer_request(options_.phase == Phase::kAll);
    request_.cancelled = options_.cancelled;
  }

  void check(BenchEntry& entry) {
    RunOptions run;
    run.only = checked_;
    run.keep = request_.wanted;
    run.cancelled = options_.cancelled;
    run.max_memory_bytes = memory_left();
    run.progress = [this](double fraction) { show((static_cast<double>(checks_) + fraction) / entry_count() / 2); };
    entry.verdict = run_case(item_, *entry.implementation, run);
    show(static_cast<double>(++checks_) / entry_count() / 2);
  }

  /// Loads the problem, as each profile rounds it, and narrows the request to what the layer has.
  Status prepare() {
    auto loaded = load_case(item_, memory_left(), options_.cancelled);
    if (!loaded) return loaded.error();
    request_.wanted &= all_datasets(loaded->problem.config);
    result_.tokens = loaded->problem.packing.real_tokens();
    result_.operations =
        reference::total_operations(loaded->problem.config, loaded->problem.packing, options_.phase == Phase::kAll);
    double bytes = kept_bytes(result_), largest_run = 0;
    for (BenchEntry& entry : result_.entries) {
      if (entry.verdict.outcome == Outcome::kPassed) demand_judged_results(entry, request_.wanted);
      if (entry.verdict.outcome != Outcome::kPassed) continue;
      timed_.push_back(&entry);
      largest_run = std::max(
          largest_run, entry.implementation->memory_bytes(loaded->problem.config, loaded->problem.packing, request_));
      problems_[entry.verdict.precision];
    }
    bytes += static_cast<double>(problems_.size()) * bytes_of(loaded->problem) + largest_run;
    if (auto status = allowed_memory(bytes, options_.max_memory_bytes, result_.case_text); !status) return status;
    for (auto& [precision, problem] : problems_)
      problem = round_problem(loaded->problem, *find_precision_profile(precision));
    return {};
  }

  void time() {
    for (int round = 0; round < options_.warmup && !stopped(); ++round)
      for (BenchEntry* entry : order_of(static_cast<std::size_t>(round))) run_once(*entry, round == 0, nullptr);
    double spent = 0;
    for (std::size_t round = 0; !finished(round, spent); ++round) {
      for (BenchEntry* entry : order_of(round)) run_once(*entry, false, &spent);
      const double by_count = static_cast<double>(round + 1) / options_.repeat;
      show(0.5 + std::min(by_count, options_.min_seconds > 0 ? spent / options_.min_seconds : 1) / 2);
    }
    for (BenchEntry* entry : timed_)
      if (!entry->same_bits && entry->verdict.outcome == Outcome::kPassed) judge_last(*entry);
    for (BenchEntry& entry : result_.entries)
      if (entry.verdict.outcome != Outcome::kPassed) entry.seconds.clear();
  }

 private:
  double entry_count() const { return static_cast<double>(std::max<std::size_t>(result_.entries.size(), 1)); }
  void show(double fraction) const {
    if (options_.progress) options_.progress(std::min(fraction, 1.0));
  }
  bool cancelled() const { return options_.cancelled && options_.cancelled(); }
  double memory_left() const {
    return options_.max_memory_bytes > 0 ? std::max(1.0, options_.max_memory_bytes - kept_bytes(result_)) : 0;
  }
  bool stopped() const {
    return cancelled() || std::none_of(timed_.begin(), timed_.end(), [](const BenchEntry* entry) {
             return entry->verdict.outcome == Outcome::kPassed;
           });
  }
  bool finished(std::size_t round, double spent) const {
    const bool enough = round >= static_cast<std::size_t>(options_.repeat) && spent >= options_.min_seconds;
    return enough || round >= std::max(kMaxRounds, static_cast<std::size_t>(options_.repeat)) || stopped();
  }

  /// Who comes first changes from round to round, so that what one leaves in the caches favours nobody.
  std::vector<BenchEntry*> order_of(std::size_t round) const {
    std::vector<BenchEntry*> order = timed_;
    if (!order.empty())
      std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(round % order.size()), order.end());
    return order;
  }

  /// One run; its seconds are noted and added to `spent` unless that is null.
  void run_once(BenchEntry& entry, bool measure_memory, double* spent) {
    if (entry.verdict.outcome != Outcome::kPassed || cancelled()) return;
    const Problem& problem = problems_.at(entry.verdict.precision);
    last_.erase(&entry);
    const bool measured = measure_memory && bench::reset_peak_memory();
    const double resident = measured ? bench::peak_memory_bytes() : 0;
    const bench::Seconds start = bench::now();
    auto results = without_exceptions(result_.case_text, [&] { return entry.implementation->run(problem, request_); });
    const double seconds = (bench::now() - start).wall;
    if (measured) entry.memory_bytes = std::max(0.0, bench::peak_memory_bytes() - resident);
    if (!results) {
      const bool declined = results.error().code == ErrorCode::kDeclined;
      return stop(entry, declined ? Outcome::kDeclined : Outcome::kError, results.error());
    }
    if (spent) {
      entry.seconds.push_back(seconds);
      *spent += seconds;
    }
    compare_bits(entry, std::move(*results));
  }

  void compare_bits(BenchEntry& entry, Results results) {
    bool same = true;
    for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
      const DatasetId id = DatasetId::from_index(i);
      if (!request_.wants(id)) continue;
      const Tensor* checked = entry.verdict.kept.find(id);
      const Tensor* timed = results.find(id);
      if (checked && timed && equal_bits(*checked, *timed)) continue;
      same = false;
      if (!timed || entry.implementation->promises().deterministic) fail(entry, id, checked, timed);
    }
    if (same) return;
    entry.same_bits = false;
    last_.insert_or_assign(&entry, std::move(results));
  }

  void fail(BenchEntry& entry, DatasetId id, const Tensor* checked, const Tensor* timed) {
    CaseVerdict& verdict = entry.verdict;
    verdict.outcome = Outcome::kFailed;
    verdict.repro = repro(entry);
    const auto found = std::find_if(verdict.datasets.begin(), verdict.datasets.end(),
                                    [&](const compare::DatasetVerdict& v) { return v.id == id; });
    compare::DatasetVerdict& v =
        found != verdict.datasets.end() ? *found : verdict.datasets.emplace_back(compare::DatasetVerdict{.id = id});
    note_difference(checked, timed, v);
    if (!timed) v.reason = "is not among a timed run's results";
  }

  std::string repro(const BenchEntry& entry) const {
    return fmt::format("plumbline bench '{}' --impl {}{}", result_.case_text, entry.implementation->name(),
                       options_.phase == Phase::kForward ? " --phase forward" : "");
  }

  void judge_last(BenchEntry& entry) {
    const auto last = last_.find(&entry);
    if (last == last_.end()) return;
    RunOptions run;
    run.only = request_.wanted;
    run.cancelled = options_.cancelled;
    run.max_memory_bytes = memory_left();
    CaseVerdict verdict = run_case(item_, Replay(*entry.implementation, last->second), run);
    if (verdict.outcome == Outcome::kPassed) return;
    entry.verdict = std::move(verdict);
    entry.verdict.repro = repro(entry);
  }

  const Case& item_;
  const BenchOptions& options_;
  BenchCase& result_;
  std::optional<DatasetSet> checked_;
  Request request_;
  std::size_t checks_ = 0;
  std::vector<BenchEntry*> timed_;
  std::map<std::string, Problem> problems_;    ///< by profile
  std::map<const BenchEntry*, Results> last_;  ///< of entries whose latest bits were other ones
};

}  // namespace

const BenchEntry* BenchCase::find(const std::string& implementation) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const BenchEntry& entry) {
    return entry.implementation->name() == implementation;
  });
  return found == entries.end() ? nullptr : &*found;
}

BenchCase bench_case(const Case& item, const std::vector<const Implementation*>& implementations,
                     const BenchOptions& options) {
  BenchCase result;
  result.case_text = print(item);
  result.entries.resize(implementations.size());
  CaseBench measured(item, options, result);
  for (std::size_t i = 0; i < implementations.size(); ++i) {
    result.entries[i].implementation = implementations[i];
    measured.check(result.entries[i]);
  }
  const bool any = std::any_of(result.entries.begin(), result.entries.end(),
                               [](const BenchEntry& entry) { return entry.verdict.outcome == Outcome::kPassed; });
  if (any) {
    const Status ready = without_exceptions(result.case_text, [&] { return measured.prepare(); });
    if (ready)
      measured.time();
    else
      for (BenchEntry& entry : result.entries)
        if (entry.verdict.outcome == Outcome::kPassed) stop(entry, Outcome::kError, ready.error());
  }
  for (BenchEntry& entry : result.entries) entry.verdict.kept = {};
  return result;
}

}  // namespace plumbline::tools
