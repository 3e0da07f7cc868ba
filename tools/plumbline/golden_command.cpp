#include <memory>

#include "golden/golden_file.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/golden_commands.hpp"

namespace plumbline::tools {

void add_golden_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<GoldenOptions>();
  CLI::App* command = app.add_subcommand("golden", "Make, update, verify, compare and show golden files");
  command->require_subcommand(1);

  CLI::App* make_command = command->add_subcommand("make", "Run the reference on cases and write golden files");
  make_command->add_option("case", options->items, "Case strings (sweeps allowed)")->required();
  make_command->add_option("--out", options->out, "Folder, or a file ending in .h5 for one case")
      ->required()
      ->check(not_empty());
  make_command
      ->add_option("--contents", options->contents,
                   "stored: inputs, weights, every stage and gradient. full: the same, but the case stands for inputs "
                   "and weights. sketch: samples, projections and norms, for real widths. seed: the case alone")
      ->check(CLI::IsMember(std::vector<std::string>(golden::kContentsNames.begin(), golden::kContentsNames.end())))
      ->capture_default_str();
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
  make_command->callback([options, &exit_code] { exit_code = golden_make(*options); });

  CLI::App* update_command =
      command->add_subcommand("update", "Make the files of a folder's manifest again, show what moved, and record why");
  update_command->add_option("folder", options->items, "Folder with a manifest.json")->required()->expected(1);
  update_command->add_option("--reason", options->reason, "Why the goldens change; required without --dry-run");
  update_command->add_option("--file", options->names, "Only this file of the manifest; may be given again");
  update_command->add_flag("--dry-run", options->dry_run, "Show what would move, write nothing");
  update_command
      ->add_option("--max-memory", options->max_memory,
                   "Refuse cases that need more, as in 8G; default: 80 % of what is available")
      ->check(not_empty());
  update_command->footer(
      "Examples:\n  plumbline golden make swa --contents seed --out suite --manifest --reason 'first set'\n"
      "  plumbline golden update suite --dry-run");
  update_command->callback([options, &exit_code] { exit_code = golden_update(*options); });

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
  verify_command->callback([options, &exit_code] { exit_code = golden_verify(*options); });

  CLI::App* diff_command = command->add_subcommand("diff", "Compare two golden files of the same problem");
  diff_command->add_option("a", options->left, "The file that is right")->required();
  diff_command->add_option("b", options->right, "The file to judge")->required();
  diff_command->footer("Examples:\n  plumbline golden diff csa.h5 csa.h5");
  diff_command->callback([options, &exit_code] { exit_code = golden_diff(*options); });

  CLI::App* show_command = command->add_subcommand("show", "Print what a golden file holds");
  show_command->add_option("file", options->items, "Golden file")->required()->expected(1);
  show_command->footer("Examples:\n  plumbline golden show csa.h5");
  show_command->callback([options, &exit_code] { exit_code = golden_show(*options); });
}

}  // namespace plumbline::tools
