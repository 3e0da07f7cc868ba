#include "tools/plumbline/golden_difference.hpp"

#include <fmt/format.h>

#include "compare/sketch_rule.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;
using golden::GoldenFile;

namespace {

/// The first part of the problem in which two goldens differ; empty when both state the same one.
std::string problem_difference(const Problem& a, const Problem& b) {
  if (!(a.config == b.config)) return "config";
  if (!(a.packing == b.packing)) return "packing";
  if (!equal_bits(a.hidden, b.hidden)) return "inputs/hidden";
  if (!equal_bits(a.grad_out, b.grad_out)) return "inputs/grad_out";
  for (const WeightInfo& weight : kWeights)
    if (present(weight.presence, a.config) && !equal_bits(a.weight(weight.id), b.weight(weight.id)))
      return "weights/" + std::string(weight.name);
  return {};
}

/// What a file says of a dataset, as a sketch.
std::optional<Sketch> sketch_of(const GoldenFile& file, DatasetId id) {
  if (file.sketches[id.index()]) return file.sketches[id.index()];
  if (const Tensor* tensor = file.results.find(id)) return make_sketch(id, *tensor, file.problem);
  return std::nullopt;
}

bool same_bits(const GoldenFile& a, const GoldenFile& b, DatasetId id) {
  if (a.results.has(id) && b.results.has(id)) return equal_bits(a.results.at(id), b.results.at(id));
  return sketch_of(a, id) == sketch_of(b, id);
}

/// Of datasets that both files hold.
std::vector<compare::DatasetVerdict> compare_datasets(const GoldenFile& want, const GoldenFile& got) {
  std::vector<compare::DatasetVerdict> verdicts =
      compare::compare_by_golden_rule(want.problem, want.results, got.results);
  std::erase_if(verdicts, [&](const compare::DatasetVerdict& v) { return !got.results.has(v.id); });
  const double loss_unit = compare::loss_condition(want.problem, want.results);
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (want.results.has(id) && got.results.has(id)) continue;
    const auto a = sketch_of(want, id), b = sketch_of(got, id);
    if (a && b) verdicts.push_back(compare::compare_sketches(id, want.problem, *a, *b, loss_unit));
  }
  return verdicts;
}

}  // namespace

GoldenDifference compare_goldens(const GoldenFile& want, const GoldenFile& got) {
  GoldenDifference difference;
  difference.other_problem = problem_difference(want.problem, got.problem);
  if (!difference.other_problem.empty()) {
    difference.summary = "another problem than before (" + difference.other_problem + " differs)";
    return difference;
  }
  TextTable table({"dataset", ">error", ">share of limit", "bits", "verdict"});
  for (const compare::DatasetVerdict& v : compare_datasets(want, got)) {
    difference.wrong += v.verdict == compare::Verdict::kFail;
    difference.compared += v.verdict != compare::Verdict::kNotCompared;
    if (same_bits(want, got, v.id)) continue;
    table.add({v.id.path(), fmt::format("{:.3g}", v.error), fmt::format("{:.3g}", v.share()), "differ",
               v.verdict == compare::Verdict::kFail ? coloured("FAIL") : "within the limit"});
  }
  const DatasetSet before = want.available(), now = got.available();
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (before.test(i) != now.test(i))
      table.add(
          {DatasetId::from_index(i).path(), "", "", "", before.test(i) ? "only in the first" : "only in the second"});
  if (!table.empty()) difference.table = table.plain();
  difference.summary = fmt::format("{} datasets compared, {} beyond the limit{}", difference.compared, difference.wrong,
                                   table.empty() ? ", all equal bit for bit" : "");
  return difference;
}

}  // namespace plumbline::tools
