#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "golden/golden_file.hpp"
#include "golden/manifest.hpp"
#include "golden/text.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/interrupt.hpp"
#include "tools/plumbline/report.hpp"
#include "tools/plumbline/runner.hpp"
#include "tools/plumbline/verdicts.hpp"

namespace plumbline::tools {

using namespace contract;
namespace fs = std::filesystem;

namespace {

struct GoldenOptions {
  std::vector<std::string> items;  ///< cases or files
  std::string out, reason, json, max_memory, left, right;
  std::vector<std::string> bugs;
  bool manifest = false, replace = false;
};

/// A file name for a case: its printed form with '=' and other marks made plain.
std::string file_name_for(const Case& item) {
  std::string name = print(item);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return name + ".h5";
}

Result<golden::GoldenFile> make_golden(const Case& item) {
  auto problem = make_problem(item);
  if (!problem) return problem.error();
  Request request;
  request.wanted = all_datasets(item.config);
  request.cancelled = interrupted;
  auto results = find_implementation("reference")->run(*problem, request);
  if (!results) return results.error();
  return golden::GoldenFile{1, print(item), std::string("plumbline ") + PLUMBLINE_VERSION, std::move(*problem),
                            std::move(*results)};
}

Result<std::vector<Case>> parse_all(const std::vector<std::string>& texts) {
  std::vector<Case> cases;
  for (const std::string& text : texts) {
    auto parsed = parse_cases(text);
    if (!parsed) return parsed.error();
    cases.insert(cases.end(), parsed->begin(), parsed->end());
  }
  for (const Case& item : cases) {
    if (!item.file.empty()) return usage_error(print(item), "is a file already; make takes cases that are generated");
    if (item.precision != "fp64")
      return usage_error(print(item), "goldens are made in double precision; leave prec= out");
  }
  return cases;
}

/// What `make` would write is refused before anything is computed.
Status may_make(const Case& item, const fs::path& path, bool replace, double max_memory_bytes) {
  std::error_code ignored;
  if (fs::exists(path, ignored) && !replace)
    return usage_error(path.string(), "exists already; give --replace to change it");
  return fits_memory(item, *find_implementation("reference"), max_memory_bytes);
}

/// The folder of --out; made if it is missing in a folder that exists.
Status make_folder(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return {};
  if (fs::exists(folder, error))
    return file_error(folder.string(), "is not a folder; --out takes a folder, or a file ending in .h5");
  const fs::path parent = fs::absolute(folder).parent_path();
  if (!fs::is_directory(parent, error)) return file_error(parent.string(), "is not there; make this folder first");
  if (!fs::create_directory(folder, error)) return file_error(folder.string(), "cannot be made: " + error.message());
  return {};
}

int make(const GoldenOptions& options) {
  auto cases = parse_all(options.items);
  if (!cases) return report_error(cases.error());
  if (!options.manifest && (!options.reason.empty() || !options.bugs.empty()))
    return report_error(
        usage_error("--manifest", "--reason and --bug are recorded in a manifest; give --manifest too"));
  if (options.manifest)
    if (auto status = golden::check_record(options.reason, options.bugs); !status)
      return report_error({status.error().code, status.error().message, "--" + status.error().where});
  const bool single = options.out.ends_with(".h5");
  if (single && cases->size() != 1)
    return report_error(
        usage_error("--out", fmt::format("names one file, but there are {} cases; give a folder", cases->size())));
  const fs::path folder = single ? fs::path(options.out).parent_path() : fs::path(options.out);
  const auto path_for = [&](const Case& item) { return single ? fs::path(options.out) : folder / file_name_for(item); };
  auto limit = memory_limit(options.max_memory);
  if (!limit) return report_error(limit.error());
  std::set<std::string> paths;
  for (const Case& item : *cases)
    if (!paths.insert(path_for(item).string()).second)
      return report_error(usage_error(print(item), "is given twice; each case makes one file"));
  for (const Case& item : *cases)
    if (auto status = may_make(item, path_for(item), options.replace, *limit); !status)
      return report_error(status.error());
  if (auto status = single ? may_write("--out", options.out) : make_folder(folder); !status)
    return report_error(status.error());
  golden::Manifest manifest;
  const std::string folder_text = folder.empty() ? "." : folder.string();
  if (options.manifest && fs::exists(folder / golden::kManifestName)) {
    auto loaded = golden::load_manifest(folder_text);
    if (!loaded) return report_error(loaded.error());
    manifest = std::move(*loaded);
  }
  for (const Case& item : *cases) {
    const fs::path path = path_for(item);
    auto file = make_golden(item);
    const Status written = file ? golden::write(path.string(), *file, interrupted) : Status(file.error());
    if (!written && interrupted())
      return report_error(
          {ErrorCode::kInterrupted, "interrupted; " + path.string() + " was not written", "golden make"});
    if (!written) return report_error(written.error());
    if (options.manifest) {
      // After each file, so that what an interrupted run leaves is listed.
      auto listed = golden::update_entry(manifest, folder_text, path.filename().string(), print(item), options.bugs,
                                         golden::today(), options.reason);
      if (listed) listed = golden::save_manifest(folder_text, manifest);
      if (!listed) return report_error(listed.error());
    }
    fmt::print("{}  {}\n", path.string(), print(item));
  }
  return 0;
}

/// What the manifest beside a file has against it; nothing where there is no manifest.
Result<std::optional<std::string>> manifest_fault(const std::string& path) {
  const fs::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  std::error_code ignored;
  if (!fs::exists(fs::path(folder) / golden::kManifestName, ignored)) return std::optional<std::string>();
  auto manifest = golden::load_manifest(folder);
  if (!manifest) return manifest.error();
  auto faults = golden::verify_checksums(*manifest, folder);
  if (!faults) return faults.error();
  for (const golden::ManifestFault& fault : *faults)
    if (fault.name == file.filename().string()) return std::optional<std::string>(fault.message);
  return std::optional<std::string>();
}

/// Files that are not what their folder's manifest records; prints each. Errors of a manifest are printed as well.
int check_manifests(const std::vector<std::string>& paths) {
  int code = 0;
  for (const std::string& path : paths) {
    auto fault = manifest_fault(path);
    if (!fault) return report_error(fault.error());
    if (*fault) {
      fmt::print("{}  {}: {}; goldens change with 'plumbline golden make --manifest --replace --reason ...'\n",
                 coloured("FAIL"), path, **fault);
      code = exit_code(ErrorCode::kCheckFailed);
    }
  }
  return code;
}

int verify(const GoldenOptions& options) {
  if (auto status = may_write("--json", options.json); !status) return report_error(status.error());
  std::vector<CaseVerdict> verdicts;
  RunOptions run;
  run.cancelled = interrupted;
  auto limit = memory_limit(options.max_memory);
  if (!limit) return report_error(limit.error());
  run.max_memory_bytes = *limit;
  ProgressBar bar(false);
  for (const std::string& path : options.items) {
    if (interrupted()) break;
    run.progress = [&](double fraction) {
      bar.show((static_cast<double>(verdicts.size()) + fraction) / static_cast<double>(options.items.size()), path);
    };
    Case item;
    item.file = path;
    verdicts.push_back(run_case(item, *find_implementation("reference"), run));
  }
  bar.clear();
  if (interrupted())
    return report_error({ErrorCode::kInterrupted, "interrupted; no report was written", "golden verify"});
  TextTable table({"file", ">datasets", ">absent", ">worst share", "worst dataset", "verdict"});
  for (const CaseVerdict& v : verdicts) {
    const compare::DatasetVerdict* worst = v.worst();
    table.add({golden::printable(v.case_text.substr(5)), fmt::format("{}", v.compared()),
               fmt::format("{}", v.absent.size()), worst ? fmt::format("{:.3g}", worst->share()) : "",
               worst ? worst->id.path() : "", coloured(word_for(v.outcome))});
  }
  fmt::print("{}", table.plain());
  for (const CaseVerdict& v : verdicts) {
    if (!v.absent.empty() && v.outcome != Outcome::kError)
      fmt::print("\n{}: not in the file, so not compared: {}\n", v.case_text.substr(5), fmt::join(v.absent, " "));
    fmt::print("{}", notes(v));
    if (v.outcome == Outcome::kFailed) fmt::print("\n{}", failure_report(v));
  }
  report_case_errors(verdicts);
  fmt::print("\n{}\n", summary_line(verdicts));
  int code = exit_code_of(verdicts);
  if (const int manifest_code = check_manifests(options.items); code == 0) code = manifest_code;
  if (!options.json.empty())
    if (auto status = write_report(options.json, verdicts, code); !status) return report_error(status.error());
  return code;
}

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

int diff(const GoldenOptions& options) {
  auto left = golden::read_guarded(options.left, golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!left) return report_error(left.error());
  auto right = golden::read_guarded(options.right, golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!right) return report_error(right.error());
  if (const std::string part = problem_difference(left->problem, right->problem); !part.empty()) {
    return report_error(usage_error(options.right, "states another problem than " + options.left + " (they differ in " +
                                                       part + "); only goldens of the same problem can be compared"));
  }
  TextTable table({"dataset", ">error", ">share of limit", "bits", "verdict"});
  int wrong = 0, compared = 0;
  for (const compare::DatasetVerdict& v :
       compare::compare_by_golden_rule(left->problem, left->results, right->results)) {
    const bool both = right->results.has(v.id);
    const bool same = both && equal_bits(left->results.at(v.id), right->results.at(v.id));
    wrong += v.verdict == compare::Verdict::kFail;
    compared += v.verdict != compare::Verdict::kNotCompared;
    if (same) continue;
    table.add({v.id.path(), fmt::format("{:.3g}", v.error), fmt::format("{:.3g}", v.share()), both ? "differ" : "",
               both ? (v.verdict == compare::Verdict::kFail ? coloured("FAIL") : "within the limit")
                    : "only in " + options.left});
  }
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const DatasetId id = DatasetId::from_index(i); right->results.has(id) && !left->results.has(id))
      table.add({id.path(), "", "", "", "only in " + options.right});
  if (!table.empty()) fmt::print("{}", table.plain());
  fmt::print("{} datasets compared, {} beyond the limit{}\n", compared, wrong,
             table.empty() ? ", all equal bit for bit" : "");
  if (compared == 0) return exit_code(ErrorCode::kNothing);
  return wrong > 0 ? exit_code(ErrorCode::kCheckFailed) : 0;
}

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

int show(const GoldenOptions& options) {
  auto file =
      golden::read_guarded(options.items.front(), golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!file) return report_error(file.error());
  const Problem& problem = file->problem;
  fmt::print("case      {}\nproducer  {}\nformat    {}\n\n", golden::printable(file->case_text),
             golden::printable(file->producer), file->format_version);
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
  fmt::print("{}", table.plain());
  return 0;
}

}  // namespace

void add_golden_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GoldenOptions>();
  CLI::App* command = app.add_subcommand("golden", "Make, verify, compare and show golden files");
  command->require_subcommand(1);

  CLI::App* make_command = command->add_subcommand("make", "Run the reference on cases and write golden files");
  make_command->add_option("case", options->items, "Case strings (sweeps allowed)")->required();
  make_command->add_option("--out", options->out, "Folder, or a file ending in .h5 for one case")
      ->required()
      ->check(not_empty());
  make_command->add_flag("--manifest", options->manifest, "Record the files in the folder's manifest.json");
  make_command->add_option("--reason", options->reason,
                           "Why the goldens are made or changed; required with --manifest");
  make_command->add_option("--bug", options->bugs, "Slug of a bug the files are for; may be given again");
  make_command->add_flag("--replace", options->replace, "Change files that exist");
  make_command
      ->add_option("--max-memory", options->max_memory,
                   "Refuse cases that need more, as in 8G; default: 80 % of what is available")
      ->check(not_empty());
  make_command->footer(
      "Examples:\n  plumbline golden make csa --out csa.h5\n  plumbline golden make 'swa|csa|hca' --out goldens "
      "--manifest --reason 'first set'");
  make_command->callback([options, &exit_code] { exit_code = make(*options); });

  CLI::App* verify_command =
      command->add_subcommand("verify", "Run the reference on the problem a file states and compare all it holds");
  verify_command->add_option("file", options->items, "Golden files")->required();
  verify_command->add_option("--json", options->json, "Write a JSON report (docs/report-schema.md)")
      ->check(not_empty());
  verify_command
      ->add_option("--max-memory", options->max_memory,
                   "Refuse files that need more, as in 8G; default: 80 % of what is available")
      ->check(not_empty());
  verify_command->footer("Examples:\n  plumbline golden verify csa.h5");
  verify_command->callback([options, &exit_code] { exit_code = verify(*options); });

  CLI::App* diff_command = command->add_subcommand("diff", "Compare two golden files of the same problem");
  diff_command->add_option("a", options->left, "The file that is right")->required();
  diff_command->add_option("b", options->right, "The file to judge")->required();
  diff_command->footer("Examples:\n  plumbline golden diff csa.h5 csa.h5");
  diff_command->callback([options, &exit_code] { exit_code = diff(*options); });

  CLI::App* show_command = command->add_subcommand("show", "Print what a golden file holds");
  show_command->add_option("file", options->items, "Golden file")->required()->expected(1);
  show_command->footer("Examples:\n  plumbline golden show csa.h5");
  show_command->callback([options, &exit_code] { exit_code = show(*options); });
}

}  // namespace plumbline::tools
