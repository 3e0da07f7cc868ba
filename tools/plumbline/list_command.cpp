#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "compare/judge.hpp"
#include "reference/contract/implementation.hpp"
#include "reference/contract/presets.hpp"
#include "reference/contract/suite.hpp"
#include "reference/jacobian.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

std::string text(std::string_view view) { return std::string(view); }

std::string axes_text(const Axes& axes) {
  std::string names;
  for (const Axis axis : axes)
    if (axis != Axis::kNone) names += (names.empty() ? "" : ", ") + text(name_of(axis));
  return "[" + names + "]";
}

std::string presence_text(Presence presence) {
  switch (presence) {
    case Presence::kAlways: return "all";
    case Presence::kCompressed: return "ratio > 1";
    case Presence::kIndexer: return "indexer";
  }
  return "";
}

TextTable list_stages() {
  TextTable table({"stage", "layers", "axes", "gradient", "computed from", "formula", "file"});
  for (const StageInfo& s : kStages)
    table.add({text(s.name), presence_text(s.presence), axes_text(s.axes), s.has_gradient ? "yes" : "no",
               text(s.inputs), text(s.formula), text(s.file)});
  return table;
}

TextTable list_weights() {
  TextTable table({"weight", "layers", "axes", "meaning"});
  for (const WeightInfo& w : kWeights)
    table.add({text(w.name), presence_text(w.presence), axes_text(w.axes), text(w.meaning)});
  return table;
}

TextTable list_implementations() {
  TextTable table({"implementation", "promises", "what it is"});
  for (const Implementation* implementation : implementations()) {
    const Promises p = implementation->promises();
    std::string promises;
    for (const auto& [made, name] : {std::pair{p.deterministic, "same bits from run to run"},
                                     {p.thread_invariant, "for any thread count"},
                                     {p.padding_invariant, "for any padding"}})
      if (made) promises += (promises.empty() ? "" : ", ") + std::string(name);
    table.add({implementation->name(), promises, implementation->description()});
  }
  return table;
}

TextTable list_kinds() {
  TextTable table({"kind", ">ratio", "keys a query sees"});
  table.add({"swa", "0", "its window"});
  table.add({"csa", "4", "its window + the top-k compressed entries of the indexer (indexer=off: all visible ones)"});
  table.add({"hca", "128", "its window + all visible compressed entries"});
  return table;
}

TextTable list_models() {
  TextTable table({"model", "meaning", ">hidden", ">heads", ">head_dim", ">rope_dim", ">q_lora_rank", ">o_groups",
                   ">o_lora_rank", ">window", ">index_heads", ">index_dim", ">index_topk"});
  for (const Preset& p : presets()) {
    const LayerConfig c = *preset(LayerKind::kCsa, p.name);
    std::vector<std::string> row = {text(p.name), text(p.meaning)};
    for (const Index size : {c.hidden, c.heads, c.head_dim, c.rope_dim, c.q_lora_rank, c.o_groups, c.o_lora_rank,
                             c.window, c.index_heads, c.index_dim, c.index_topk})
      row.push_back(std::to_string(size));
    table.add(row);
  }
  return table;
}

TextTable list_regimes() {
  TextTable table({"regime", "meaning"});
  for (const RegimeInfo& r : regimes()) table.add({text(r.name), text(r.meaning)});
  return table;
}

TextTable list_profiles() {
  TextTable table({"profile", "meaning"});
  for (const PrecisionProfile& profile : precision_profiles()) table.add({profile.name, profile.meaning});
  return table;
}

TextTable list_datasets() {
  TextTable table({"dataset"});
  for (const DatasetId id : compare::computation_order()) table.add({id.path()});
  return table;
}

TextTable list_config() {
  TextTable table({"field", "meaning"});
  for (const ConfigField& field : kConfigFields) table.add({text(field.name), text(field.meaning)});
  return table;
}

TextTable list_keys() {
  TextTable table({"key", "values", "meaning"});
  for (const CaseKey& key : case_keys()) table.add({text(key.name), text(key.values), text(key.meaning)});
  return table;
}

TextTable list_jacobians() {
  TextTable table({"map or stage"});
  for (const std::string& name : reference::jacobian_names()) table.add({name});
  return table;
}

std::vector<std::string> suite_names() {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(PLUMBLINE_SUITE_DIR, ignored))
    if (entry.path().extension() == ".suite") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

Result<TextTable> list_suites() {
  TextTable table({"suite", ">cases"});
  for (const std::string& name : suite_names()) {
    auto entries = load_suite(PLUMBLINE_SUITE_DIR, name);
    if (!entries) return entries.error();
    table.add({name, std::to_string(entries->size())});
  }
  return table;
}

Result<TextTable> list_cases() {
  TextTable table({"suite", "case", "why"});
  for (const std::string& name : suite_names()) {
    auto entries = load_suite(PLUMBLINE_SUITE_DIR, name);
    if (!entries) return entries.error();
    for (const SuiteEntry& entry : *entries) table.add({name, print(entry.item), entry.reason});
  }
  return table;
}

const std::map<std::string, Result<TextTable> (*)()>& lists() {
  static const std::map<std::string, Result<TextTable> (*)()> all = {
      {"stages", [] { return Result<TextTable>(list_stages()); }},
      {"weights", [] { return Result<TextTable>(list_weights()); }},
      {"implementations", [] { return Result<TextTable>(list_implementations()); }},
      {"kinds", [] { return Result<TextTable>(list_kinds()); }},
      {"models", [] { return Result<TextTable>(list_models()); }},
      {"regimes", [] { return Result<TextTable>(list_regimes()); }},
      {"datasets", [] { return Result<TextTable>(list_datasets()); }},
      {"profiles", [] { return Result<TextTable>(list_profiles()); }},
      {"config", [] { return Result<TextTable>(list_config()); }},
      {"keys", [] { return Result<TextTable>(list_keys()); }},
      {"jacobians", [] { return Result<TextTable>(list_jacobians()); }},
      {"suites", list_suites},
      {"cases", list_cases},
  };
  return all;
}

}  // namespace

void add_list_command(CLI::App& app, int& exit_code) {
  struct Options {
    std::string what;
    bool markdown = false, json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("list", "List what there is: stages, weights, cases, suites, implementations, ...");
  std::vector<std::string> names;
  for (const auto& [name, make] : lists()) names.push_back(name);
  command->add_option("what", options->what, fmt::format("{}", fmt::join(names, " | ")))->required();
  command->add_flag("--markdown", options->markdown, "As a Markdown table");
  command->add_flag("--json", options->json, "As JSON: a list of objects")->excludes("--markdown");
  command->footer(
      "Examples:\n  plumbline list stages --markdown\n  plumbline list cases\n  plumbline list config --json");
  command->callback([options, names, &exit_code] {
    const auto found = lists().find(options->what);
    if (found == lists().end()) {
      exit_code = report_error(
          usage_error("list", fmt::format("unknown list '{}', allowed: {}", options->what, fmt::join(names, ", "))));
      return;
    }
    auto table = found->second();
    if (!table) {
      exit_code = report_error(table.error());
      return;
    }
    fmt::print("{}", options->json ? table->json() : options->markdown ? table->markdown() : table->plain());
  });
}

}  // namespace plumbline::tools
