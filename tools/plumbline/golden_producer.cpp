#include "tools/plumbline/golden_producer.hpp"

#include <fmt/format.h>

#include "reference/contract/implementation.hpp"
#include "tools/plumbline/golden_difference.hpp"
#include "tools/plumbline/interrupt.hpp"

namespace plumbline::tools {

using namespace contract;
using golden::Contents;

Result<golden::GoldenFile> make_golden(const Case& item, Contents contents) {
  auto problem = make_problem(item);
  if (!problem) return problem.error();
  golden::GoldenFile file;
  file.contents = contents;
  file.case_text = print(item);
  file.producer = std::string("plumbline ") + PLUMBLINE_VERSION;
  if (contents != Contents::kStored) file.fingerprints = golden::make_fingerprints(*problem);
  if (contents != Contents::kSeed) {
    Request request;
    request.wanted = all_datasets(item.config);
    request.cancelled = interrupted;
    auto results = find_implementation("reference")->run(*problem, request);
    if (!results) return results.error();
    file.results = std::move(*results);
  }
  if (contents == Contents::kSketch)
    for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
      const DatasetId id = DatasetId::from_index(i);
      if (!file.results.has(id)) continue;
      file.sketches[i] = make_sketch(id, file.results.at(id), *problem);
      file.results.erase(id);
    }
  file.problem = std::move(*problem);
  return file;
}

GoldenChange describe_change(const std::string& path, const golden::GoldenFile& now) {
  auto before = golden::read_guarded(path, golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!before) return {true, fmt::format("{}: what was there cannot be compared: {}\n", path, before.error().text())};
  const GoldenDifference difference = compare_goldens(*before, now);
  const bool same = difference.other_problem.empty() && difference.table.empty() && before->contents == now.contents &&
                    before->case_text == now.case_text;
  return {!same, fmt::format("{}: {}\n{}", path, difference.summary, difference.table)};
}

}  // namespace plumbline::tools
