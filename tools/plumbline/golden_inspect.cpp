#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "golden/golden_file.hpp"
#include "golden/text.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/golden_commands.hpp"
#include "tools/plumbline/golden_difference.hpp"
#include "tools/plumbline/interrupt.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

std::string range_of(const Tensor& tensor) {
  double low = 0, high = 0;
  bool any = false;
  Index other = 0;
  for (Index i = 0; i < tensor.size(); ++i) {
    if (!std::isfinite(tensor[i])) {
      ++other;
      continue;
    }
    low = any ? std::min(low, tensor[i]) : tensor[i];
    high = any ? std::max(high, tensor[i]) : tensor[i];
    any = true;
  }
  std::string text = any ? fmt::format("{:.4g} .. {:.4g}", low, high) : "";
  if (other > 0) text += fmt::format("{}{} NaN or infinite", any ? ", " : "", other);
  return text;
}

std::string field_text(const LayerConfig& config, const ConfigField& field) {
  return std::visit(
      [&](auto member) {
        using Value = std::remove_cvref_t<decltype(config.*member)>;
        if constexpr (std::is_same_v<Value, Teacher>)
          return std::string(to_string(config.*member));
        else
          return fmt::format("{}", config.*member);
      },
      field.member);
}

}  // namespace

int golden_diff(const GoldenOptions& options) {
  auto left = golden::read_guarded(options.left, golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!left) return report_error(left.error());
  auto right = golden::read_guarded(options.right, golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!right) return report_error(right.error());
  const GoldenDifference difference = compare_goldens(*left, *right);
  if (!difference.other_problem.empty())
    return report_error(usage_error(options.right, "states another problem than " + options.left + " (they differ in " +
                                                       difference.other_problem +
                                                       "); only goldens of the same problem can be compared"));
  fmt::print("{}{}\n", difference.table, difference.summary);
  if (difference.compared == 0) return exit_code(ErrorCode::kNothing);
  return difference.wrong > 0 ? exit_code(ErrorCode::kCheckFailed) : 0;
}

int golden_show(const GoldenOptions& options) {
  auto file =
      golden::read_guarded(options.items.front(), golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!file) return report_error(file.error());
  const Problem& problem = file->problem;
  fmt::print("case      {}\nproducer  {}\nformat    {}, {}\n\n", golden::printable(file->case_text),
             golden::printable(file->producer), file->format_version(), to_string(file->contents));
  TextTable config({"config", ">value", "meaning"});
  for (const ConfigField& field : kConfigFields)
    config.add({std::string(field.name), field_text(problem.config, field), std::string(field.meaning)});
  fmt::print("{}\n", config.plain());
  fmt::print("packing   {} segments, {} rows, {} real tokens, {} with the query role; lengths {}\n\n",
             problem.packing.segments(), problem.packing.tokens(), problem.packing.real_tokens(),
             problem.packing.valid_rows(), fmt::join(problem.packing.lengths, "+"));
  TextTable table({"dataset", "shape", "range"});
  table.add({"inputs/hidden", to_string(problem.hidden.shape()), range_of(problem.hidden)});
  table.add({"inputs/grad_out", to_string(problem.grad_out.shape()), range_of(problem.grad_out)});
  for (const WeightInfo& weight : kWeights)
    if (present(weight.presence, problem.config))
      table.add({"weights/" + std::string(weight.name), to_string(problem.weight(weight.id).shape()),
                 range_of(problem.weight(weight.id))});
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const Tensor* tensor = file->results.find(DatasetId::from_index(i)))
      table.add({DatasetId::from_index(i).path(), to_string(tensor->shape()), range_of(*tensor)});
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const auto& sketch = file->sketches[i]) {
      const DatasetId id = DatasetId::from_index(i);
      table.add({"sketch/" + id.path(), to_string(shape_of(id.axes(), problem.config, problem.packing)),
                 fmt::format("max |x| {:.4g}, norm {:.4g}", sketch->largest, sketch->norm)});
    }
  fmt::print("{}", table.plain());
  return 0;
}

}  // namespace plumbline::tools
