#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "compare/golden_rule.hpp"
#include "reference/contract/implementation.hpp"
#include "reference/contract/nearest.hpp"
#include "reference/contract/precision.hpp"
#include "reference/contract/presets.hpp"
#include "reference/contract/suite.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/explain_judge.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

struct ExitCode {
  std::string_view code, meaning;
};

constexpr auto kExitCodes = std::to_array<ExitCode>({
    {"0", "everything that was asked was judged, and passes"},
    {"1", "a check failed (NaN in a candidate too)"},
    {"2", "usage or case error, impossible configuration or packing, a case that does not fit the memory"},
    {"3", "nothing was checked"},
    {"4",
     "a file is absent, unreadable, truncated, of the wrong version, shape or dtype, not writable, or holds NaN or "
     "Inf"},
    {"5", "a candidate crashed or timed out"},
    {"6", "everything was declined"},
    {"70", "internal error: a bug of Plumbline"},
    {"130", "interrupted"},
});

std::string_view specified_text(Role role) {
  switch (role) {
    case Role::kQueryInput: return "on rows with the query role (row_valid 1)";
    case Role::kQueryResult: return "on all rows; those without the query role hold a fixed value";
    case Role::kKey: return "on real tokens, masked or not";
    case Role::kEntry: return "on entries whose group is all real tokens";
    case Role::kBatch: return "always";
  }
  return "";
}

std::string_view compared_text(Comparator comparator) {
  switch (comparator) {
    case Comparator::kReal: return "largest difference in units of the largest value";
    case Comparator::kSelection: return "each row as a set of indices";
    case Comparator::kLoss: return "against how far rounding of the loss's terms can move it";
  }
  return "";
}

std::string explain_stage(const StageInfo& s) {
  std::string text = fmt::format("stage {}\n  {}\n  computed from: {}\n  shape: [", s.name, s.formula, s.inputs);
  for (std::size_t i = 0; i < s.axes.size() && s.axes[i] != Axis::kNone; ++i)
    text += (i ? ", " : "") + std::string(name_of(s.axes[i]));
  text += "]\n";
  text += fmt::format("  gradient: {}\n", s.has_gradient ? "grad/forward/" + std::string(s.name) +
                                                               ", the total derivative of sum(out * grad_out) + "
                                                               "loss_scale * indexer_loss"
                                                         : "none");
  text += fmt::format("  specified: {}\n  compared: {}\n  reference: {}\n", specified_text(s.role),
                      compared_text(s.comparator), s.file);
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

/// "plumbline golden make".
std::string command_path(const CLI::App& app) {
  return app.get_parent() ? command_path(*app.get_parent()) + " " + app.get_name() : app.get_name();
}

/// Every option of the program that has this name, with or without its dashes, and the command it belongs to.
std::string explain_flag(const CLI::App& app, const std::string& topic) {
  std::string text;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_lnames().empty() && option->check_name(topic) && option->get_lnames().front() != "help")
      text += fmt::format("option {} of {}\n  {}\n", option->get_name(false, true), command_path(app),
                          option->get_description());
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    text += explain_flag(*command, topic);
  return text;
}

void collect_flags(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    collect_flags(*command, names);
}

std::vector<std::string> topics(const CLI::App& app) {
  std::vector<std::string> names = {"exit-codes", "golden", "gates", "budget", "profile", "case", "swa", "csa", "hca"};
  for (const StageInfo& s : kStages) names.emplace_back(s.name);
  for (const WeightInfo& w : kWeights) names.emplace_back(w.name);
  for (const ConfigField& f : kConfigFields) names.emplace_back(f.name);
  for (const CaseKey& k : case_keys()) names.emplace_back(k.name);
  for (const RegimeInfo& r : regimes()) names.emplace_back(r.name);
  for (const Preset& p : presets()) names.emplace_back(p.name);
  for (const std::string_view profile : precision_names()) names.emplace_back(profile);
  for (const Implementation* i : implementations()) names.push_back(i->name());
  collect_flags(app, names);
  std::sort(names.begin(), names.end());  // some name several things
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

Result<std::string> explain(const CLI::App& app, const std::string& topic) {
  std::string text;
  for (const ExitCode& row : kExitCodes)
    if (topic == "exit-codes" || topic == row.code) text += fmt::format("{:<4} {}\n", row.code, row.meaning);
  if (topic == "golden") text += explain_gate();
  if (topic == "gates") text += explain_gates();
  if (topic == "profile") text += explain_profile_files();
  if (topic == "case") text += explain_case_keys();
  if (const auto stage = find_stage(topic)) text += explain_stage(info(*stage));
  if (const auto weight = find_weight(topic)) text += fmt::format("weight {}\n  {}\n", topic, info(*weight).meaning);
  for (const ConfigField& field : kConfigFields)
    if (field.name == topic) text += fmt::format("config field {} (also a case key)\n  {}\n", topic, field.meaning);
  for (const CaseKey& key : case_keys())
    if (key.name == topic) text += fmt::format("case key {}={}\n  {}\n", topic, key.values, key.meaning);
  for (const RegimeInfo& regime : regimes())
    if (regime.name == topic) text += fmt::format("data regime {}\n  {}\n", topic, regime.meaning);
  for (const Preset& model : presets())
    if (model.name == topic) text += fmt::format("model {}\n  {}\n", topic, model.meaning);
  if (const Implementation* implementation = find_implementation(topic))
    text += fmt::format("implementation {}\n  {}\n", topic, implementation->description());
  for (const PrecisionProfile& profile : precision_profiles())
    if (profile.name == topic)
      text += fmt::format("precision profile {} (prec={})\n  {}\n", topic, topic, profile.meaning);
  text += explain_flag(app, topic);
  if (!text.empty()) return text;
  if (topic.find_first_of(",=") != std::string::npos || topic == "swa" || topic == "csa" || topic == "hca") {
    auto c = parse_case(topic);
    if (!c) return c.error();
    return explain_one_case(*c);
  }
  return usage_error("explain", fmt::format("nothing is called '{}'; nearest: {}", topic,
                                            fmt::join(nearest_names(topic, topics(app), 3), ", ")));
}

}  // namespace

void add_explain_command(CLI::App& app, int& exit_code) {
  auto topic = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand(
      "explain", "Explain a stage, weight, config field, case key, regime, model, option, gate, case or exit code");
  command->add_option("topic", *topic,
                      "A name, an option, a case string, 'golden' and 'gates' (how results are judged), 'budget "
                      "STAGE', 'profile', 'case' (all keys), an exit code or "
                      "'exit-codes'");
  command->allow_extras();  // "explain --repeat" asks about an option; it does not give one
  command->footer(
      "Examples:\n  plumbline explain compressed_kv\n  plumbline explain 'csa,seq=37+3,pad=8'\n  plumbline explain "
      "--max-memory\n  plumbline explain 3\n  plumbline explain budget attn_out");
  command->callback([topic, command, &app, &exit_code] {
    std::vector<std::string> asked = command->remaining();
    if (!topic->empty()) asked.insert(asked.begin(), *topic);
    auto text =
        asked.size() == 1 ? explain(app, asked.front())
        : asked.size() == 2 && asked.front() == "budget"
            ? explain_budget(asked.back())
            : Result<std::string>(usage_error(
                  "explain", fmt::format("got {} topics, allowed: one, or 'budget STAGE'; see plumbline explain --help",
                                         asked.size())));
    if (!text) {
      exit_code = report_error(text.error());
      return;
    }
    fmt::print("{}", *text);
  });
}

}  // namespace plumbline::tools
