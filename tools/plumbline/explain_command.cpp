#include <fmt/format.h>

#include <optional>

#include "compare/golden_rule.hpp"
#include "reference/contract/nearest.hpp"
#include "reference/contract/suite.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

constexpr std::string_view kExitCodes =
    "0    everything that was asked was judged, and passes\n"
    "1    a check failed (NaN in a candidate too)\n"
    "2    usage or case error, impossible configuration or packing, a case that does not fit the memory\n"
    "3    nothing was checked\n"
    "4    a file is absent, unreadable, truncated, of the wrong version, shape or dtype, not writable, or holds NaN or "
    "Inf\n"
    "5    a candidate crashed or timed out\n"
    "6    everything was declined\n"
    "70   internal error: a bug of Plumbline\n"
    "130  interrupted\n";

std::string explain_stage(const StageInfo& s) {
  std::string text = fmt::format("stage {}\n  {}\n  computed from: {}\n  shape: [", s.name, s.formula, s.inputs);
  for (std::size_t i = 0; i < s.axes.size() && s.axes[i] != Axis::kNone; ++i)
    text += (i ? ", " : "") + std::string(name_of(s.axes[i]));
  text += "]\n";
  text += fmt::format("  gradient: {}\n", s.has_gradient ? "grad/forward/" + std::string(s.name) +
                                                               ", the total derivative of sum(out * grad_out) + "
                                                               "loss_scale * indexer_loss"
                                                         : "none");
  text += fmt::format("  reference: {}\n", s.file);
  return text;
}

std::string explain_gate() {
  const compare::Limits limits;
  return fmt::format(
      "gate golden\n"
      "  error = max|got - want| / max|want| over specified, finite entries; absolute where the expected tensor is all "
      "zero;\n"
      "  infinities match in place; NaN fails; topk rows are sets; the loss in units of loss_coeff * sum t (|ln t| + "
      "|ln p|) / N\n"
      "  limit {:g} for forward datasets and the loss, {:g} for gradients: what two correct double-precision "
      "implementations may\n"
      "  differ by. Specified is what the contract defines: see docs/golden-format.md\n",
      limits.forward, limits.gradient);
}

std::string explain_case_keys() {
  TextTable table({"key", "values", "meaning"});
  for (const CaseKey& key : case_keys())
    table.add({std::string(key.name), std::string(key.values), std::string(key.meaning)});
  for (const ConfigField& field : kConfigFields)
    table.add({std::string(field.name), "overrides the preset", std::string(field.meaning)});
  return "A case is KIND,key=value,...: swa | csa | hca, then keys in any order. Sweeps: a|b, and 127..131 for whole "
         "numbers.\n" +
         table.plain();
}

std::string explain_one_case(const Case& c) {
  std::string text = fmt::format("case {}\n  in full: {}\n", print(c), print_full(c));
  if (!c.file.empty()) return text;
  const Packing packing = make_packing(c);
  text += fmt::format("  {} segments, {} rows, {} real tokens, {} with the query role, {} compressed entries\n",
                      packing.segments(), packing.tokens(), packing.real_tokens(), packing.valid_rows(),
                      packing.total_groups(c.config.ratio));
  return text;
}

std::vector<std::string> topics() {
  std::vector<std::string> names = {"exit-codes", "golden", "case"};
  for (const StageInfo& s : kStages) names.emplace_back(s.name);
  for (const WeightInfo& w : kWeights) names.emplace_back(w.name);
  for (const ConfigField& f : kConfigFields) names.emplace_back(f.name);
  for (const CaseKey& k : case_keys()) names.emplace_back(k.name);
  for (const RegimeInfo& r : regimes()) names.emplace_back(r.name);
  return names;
}

Result<std::string> explain(const std::string& topic) {
  std::string text;
  if (topic == "exit-codes") text += kExitCodes;
  if (topic == "golden") text += explain_gate();
  if (topic == "case") text += explain_case_keys();
  if (const auto stage = find_stage(topic)) text += explain_stage(info(*stage));
  if (const auto weight = find_weight(topic)) text += fmt::format("weight {}\n  {}\n", topic, info(*weight).meaning);
  for (const ConfigField& field : kConfigFields)
    if (field.name == topic) text += fmt::format("config field {} (also a case key)\n  {}\n", topic, field.meaning);
  for (const CaseKey& key : case_keys())
    if (key.name == topic) text += fmt::format("case key {}={}\n  {}\n", topic, key.values, key.meaning);
  for (const RegimeInfo& regime : regimes())
    if (regime.name == topic) text += fmt::format("data regime {}\n  {}\n", topic, regime.meaning);
  if (!text.empty()) return text;
  if (topic.find(',') != std::string::npos || topic == "swa" || topic == "csa" || topic == "hca") {
    auto c = parse_case(topic);
    if (!c) return c.error();
    return explain_one_case(*c);
  }
  return usage_error("explain", fmt::format("nothing is called '{}'; nearest: {}", topic,
                                            fmt::join(nearest_names(topic, topics(), 3), ", ")));
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  auto topic = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "explain", "Explain a stage, weight, config field, case key, regime, gate, case or the exit codes");
  command->add_option("topic", *topic, "A name, a case string, 'golden' (the gate), 'case' (all keys) or 'exit-codes'")
      ->required();
  command->footer(
      "Examples:\n  plumbline explain compressed_kv\n  plumbline explain 'csa,seq=37+3,pad=8'\n  plumbline explain "
      "exit-codes");
  command->callback([topic, &exit_code] {
    auto text = explain(*topic);
    if (!text) {
      exit_code = report_error(text.error());
      return;
    }
    fmt::print("{}", *text);
  });
}

}  // namespace plumbline::tools
