// The double-precision reference against Eigen's dgemm in the same run: whole layers, and the products of each stage.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/layer_request.hpp"
#include "bench/layer_table.hpp"
#include "bench/machine.hpp"
#include "bench/stage_timer.hpp"
#include "reference/exact.hpp"
#include "reference/operation_count.hpp"

namespace plumbline::bench {
namespace {

using contract::Case, contract::Problem, contract::StageId;

std::vector<LayerRow> rows;
int exit_status = 0;

void skip(benchmark::State& state, const contract::Error& error) {
  state.SkipWithError(error.text().c_str());
  exit_status = contract::exit_code(error.code);
}

/// The case's problem; only the last one is kept, so that memory is one case's alone.
contract::Result<const Problem*> problem_of(const Case& item) {
  static std::optional<Case> last;
  static Problem problem;
  if (last == item) return &problem;
  last.reset();
  problem = {};
  auto made = contract::make_problem(item);
  if (!made) return made.error();
  problem = std::move(*made);
  last = item;
  return &problem;
}

void layer(benchmark::State& state, const Case& item, bool backward) {
  const auto problem = problem_of(item);
  if (!problem) return skip(state, problem.error());
  const contract::Request request = layer_request(backward);
  LayerRow row;
  row.item = item;
  row.backward = backward;
  row.operations = reference::total_operations(item.config, (*problem)->packing, backward);

  const Rate before = measure_dgemm();
  const bool measured = reset_peak_memory();
  for (auto _ : state) {
    const Seconds start = now();
    const auto results = reference::run_exact<double>(**problem, request);
    const Seconds taken = now() - start;
    if (!results) return skip(state, results.error());
    state.SetIterationTime(taken.wall);
    row.seconds.wall += taken.wall / double(state.max_iterations);
    row.seconds.cpu += taken.cpu / double(state.max_iterations);
  }
  if (measured) row.peak_bytes = peak_memory_bytes();
  row.dgemm = mean(before, measure_dgemm());
  state.counters["GFLOP/s"] = row.rate() * 1e-9;
  state.counters["dgemm_GFLOP/s"] = row.dgemm.per_second * 1e-9;
  state.counters["of_dgemm"] = row.of_dgemm();
  state.counters["of_dgemm_by_cpu"] = row.of_dgemm_by_cpu();
  if (measured) state.counters["peak_GiB"] = row.peak_bytes / 0x1p30;
  add_row(rows, row);
}

/// Stages of one case, timed once for all of its benchmarks.
struct TimedStages {
  StageSeconds seconds;
  Rate dgemm;
};
contract::Result<const TimedStages*> timed_stages(const Case& item) {
  static std::map<std::string, TimedStages> all;
  const std::string name = contract::print(item);
  if (const auto known = all.find(name); known != all.end()) return &known->second;
  const auto problem = problem_of(item);
  if (!problem) return problem.error();
  const Rate before = measure_dgemm();
  const auto seconds = time_stages(**problem);
  if (!seconds) return seconds.error();
  return &(all[name] = {*seconds, mean(before, measure_dgemm())});
}

void stage(benchmark::State& state, const Case& item, const reference::StageOperations& count, bool backward) {
  const auto timed = timed_stages(item);
  if (!timed) return skip(state, timed.error());
  const StageSeconds& seconds = (*timed)->seconds;
  const double taken = (backward ? seconds.backward : seconds.forward)[static_cast<std::size_t>(count.stage)];
  const double operations = backward ? count.backward : count.forward;
  for (auto _ : state) state.SetIterationTime(taken);
  state.counters["GFLOP"] = operations * 1e-9;
  state.counters["share"] = taken / seconds.total();
  state.counters["of_dgemm_by_cpu"] = operations / taken / (*timed)->dgemm.per_cpu_second;
}

void rest(benchmark::State& state, const Case& item) {
  const auto timed = timed_stages(item);
  if (!timed) return skip(state, timed.error());
  for (auto _ : state) state.SetIterationTime((*timed)->seconds.rest);
  state.counters["share"] = (*timed)->seconds.rest / (*timed)->seconds.total();
}

template <typename Body>
void add(const std::string& name, int iterations, Body body) {
  benchmark::RegisterBenchmark(name.c_str(), body)
      ->UseManualTime()
      ->Iterations(iterations)
      ->Unit(benchmark::kMillisecond);
}

void register_layer(const Case& item) {
  const int iterations = item.model.starts_with("tiny") ? 20 : 1;
  for (const bool backward : {false, true})
    add(fmt::format("layer/{}/{}", contract::print(item), backward ? "forward+backward" : "forward"), iterations,
        [=](benchmark::State& state) { layer(state, item, backward); });
}

void register_stages(const Case& item) {
  const std::string name = "stage/" + contract::print(item);
  for (const reference::StageOperations& count : reference::operation_counts(item.config, contract::make_packing(item)))
    for (const bool backward : {false, true})
      if ((backward ? count.backward : count.forward) > 0)
        add(fmt::format("{}/{}/{}", name, info(count.stage).name, backward ? "backward" : "forward"), 1,
            [=](benchmark::State& state) { stage(state, item, count, backward); });
  add(name + "/rest", 1, [=](benchmark::State& state) { rest(state, item); });
}

int fail(const contract::Error& error) {
  fmt::print(stderr, "reference_bench: error: {}\n", error.text());
  return contract::exit_code(error.code);
}

int run(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  std::vector<std::string> texts(argv + 1, argv + argc);
  for (const std::string& text : texts)
    if (text.starts_with('-'))
      return fail(contract::usage_error(text, "unknown flag; allowed: --benchmark_... (see --help), and case strings"));
  if (texts.empty())
    texts = {"swa|csa|hca", "swa|csa|hca,model=flash,seq=256", "swa|csa|hca,model=flash,seq=512",
             "swa|csa|hca,model=flash,seq=1024", "csa,model=flash,seq=2048"};
  for (const std::string& text : texts) {
    const auto cases = contract::parse_cases(text);
    if (!cases) return fail(cases.error());
    for (const Case& item : *cases) {
      if (auto status = contract::validate(item.config); !status) return fail(status.error());
      register_layer(item);
      register_stages(item);
    }
  }
  benchmark::RunSpecifiedBenchmarks();
  for (const std::string& table : {speed_table(rows), memory_table(rows)})
    if (!table.empty()) fmt::print("\n{}", table);
  return exit_status;
}

}  // namespace
}  // namespace plumbline::bench

int main(int argc, char** argv) { return plumbline::bench::run(argc, argv); }
