// Whole layers and single stages of the double-precision reference, with the dgemm rate of the same run beside them.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "bench/stage_timer.hpp"
#include "reference/exact.hpp"
#include "reference/operation_count.hpp"
#include "reference/run_layer.hpp"

namespace plumbline::bench {
namespace {

using namespace contract;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Operations a second of a large product in double precision, driven as the reference drives its own.
double dgemm_rate() {
  using reference::Matrix;
  constexpr Index n = 2048;
  static const Matrix<double> a = Matrix<double>::Random(n, n), b = Matrix<double>::Random(n, n);
  static Matrix<double> c(n, n);
  reference::fix_product_blocking();
  const double start = now();
  reference::project(reference::ExactPolicy<double>{}, DatasetId::forward(StageId::kOut), reference::all(c),
                     reference::all(a), reference::all(b));
  return 2.0 * n * n * n / (now() - start);
}

/// Highest resident memory since the last reset, in bytes; the reset needs Linux's clear_refs.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stod(line.substr(6)) * 1024;
  return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

const Problem& problem_of(const std::string& text) {
  static std::string last;
  static Problem problem;
  if (last != text) {
    problem = {};
    auto made = make_problem(*parse_case(text));
    problem = std::move(*made);
    last = text;
  }
  return problem;
}

struct Row {
  std::string name;
  double operations, seconds, dgemm, peak;
};
std::vector<Row>& rows() {
  static std::vector<Row> all;
  return all;
}

void layer(benchmark::State& state, const std::string& text, bool backward) {
  const Problem& problem = problem_of(text);
  Request request;
  request.wanted.set(DatasetId::forward(StageId::kOut).index());
  request.wanted.set(DatasetId::forward(StageId::kIndexerLoss).index());
  if (backward) {
    for (const WeightInfo& weight : kWeights) request.wanted.set(DatasetId::gradient(weight.id).index());
    request.wanted.set(DatasetId::hidden_gradient().index());
  }
  const double operations = reference::total_operations(problem.config, problem.packing, backward);
  double seconds = 0, dgemm = 0;
  reset_peak();
  for (auto _ : state) {
    const double before = dgemm_rate(), start = now();
    auto results = reference::run_exact<double>(problem, request);
    const double one = now() - start;
    if (!results) {
      state.SkipWithError(results.error().text().c_str());
      return;
    }
    state.SetIterationTime(one);
    seconds += one;
    dgemm += (before + dgemm_rate()) / 2;
  }
  const double runs = static_cast<double>(state.iterations());
  const Row row{text + (backward ? " forward+backward" : " forward"), operations, seconds / runs, dgemm / runs,
                peak_bytes()};
  rows().push_back(row);
  state.counters["GFLOP/s"] = row.operations / row.seconds * 1e-9;
  state.counters["dgemm_GFLOP/s"] = row.dgemm * 1e-9;
  state.counters["of_dgemm"] = row.operations / row.seconds / row.dgemm;
  state.counters["peak_GiB"] = row.peak / 0x1p30;
  state.counters["tokens"] = static_cast<double>(problem.packing.tokens());
}

void stage(benchmark::State& state, const std::string& text, StageId id, bool backward) {
  static std::map<std::string, StageSeconds> timed;
  if (!timed.count(text)) timed[text] = time_stages(problem_of(text));
  const StageSeconds& seconds = timed[text];
  const double one = (backward ? seconds.backward : seconds.forward)[static_cast<std::size_t>(id)];
  for (auto _ : state) state.SetIterationTime(one);
  const Case c = *parse_case(text);
  for (const reference::StageOperations& count : reference::operation_counts(c.config, make_packing(c)))
    if (count.stage == id) state.counters["GFLOP"] = (backward ? count.backward : count.forward) * 1e-9;
}

void register_layer(const std::string& text, benchmark::IterationCount iterations) {
  for (const bool backward : {false, true})
    benchmark::RegisterBenchmark(fmt::format("layer/{}/{}", text, backward ? "forward+backward" : "forward").c_str(),
                                 [=](benchmark::State& state) { layer(state, text, backward); })
        ->UseManualTime()
        ->Iterations(iterations)
        ->Unit(benchmark::kMillisecond);
}

void register_stages(const std::string& text) {
  const LayerConfig config = parse_case(text)->config;
  for (const StageInfo& s : kStages) {
    if (!present(s.presence, config)) continue;
    for (const bool backward : {false, true}) {
      if (backward && !s.has_gradient) continue;
      benchmark::RegisterBenchmark(
          fmt::format("stage/{}/{}/{}", text, s.name, backward ? "backward" : "forward").c_str(),
          [=](benchmark::State& state) { stage(state, text, s.id, backward); })
          ->UseManualTime()
          ->Iterations(1)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

void print_table() {
  if (rows().empty()) return;
  fmt::print("\n{:<58}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "layer", "GFLOP", "seconds", "GFLOP/s", "of dgemm",
             "peak GiB");
  for (const Row& row : rows())
    fmt::print("{:<58}{:>10.1f}{:>10.3f}{:>10.1f}{:>9.0f}%{:>10.2f}\n", row.name, row.operations * 1e-9, row.seconds,
               row.operations / row.seconds * 1e-9, 100 * row.operations / row.seconds / row.dgemm, row.peak / 0x1p30);
}

}  // namespace
}  // namespace plumbline::bench

int main(int argc, char** argv) {
  using namespace plumbline::bench;
  for (const char* kind : {"swa", "csa", "hca"}) {
    register_layer(std::string(kind) + ",model=tiny", 20);
    for (const int seq : {256, 512, 1024, 2048, 4096})
      register_layer(fmt::format("{},model=flash,seq={}", kind, seq), 1);
    register_stages(std::string(kind) + ",model=tiny");
    register_stages(fmt::format("{},model=flash,seq=512", kind));
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  print_table();
  return 0;
}
