#include <fmt/format.h>

#include "golden/atomic_file.hpp"
#include "reference/jacobian.hpp"
#include "tools/plumbline/commands.hpp"
#include "tools/plumbline/console.hpp"

namespace plumbline::tools {

using namespace contract;

namespace {

struct JacobianOptions {
  std::string name, item = "csa", csv;
};

/// What double precision leaves between a dense Jacobian and its vjp, and what central differences can show.
constexpr double kVjpLimit = 1e-14, kDifferenceLimit = 1e-9;

std::string csv_of(const std::vector<reference::JacobianReport>& reports) {
  std::string text;
  for (const reference::JacobianReport& report : reports) {
    text += fmt::format("# {} at {}: {}\n", report.map, report.at, report.formula);
    for (Index row = 0; row < report.matrix.shape()[0]; ++row)
      text += fmt::format("{:.17g}\n",
                          fmt::join(report.matrix.row(row), report.matrix.row(row) + report.matrix.row_size(), ","));
  }
  return text;
}

int jacobian(const JacobianOptions& options) {
  auto item = parse_case(options.item);
  if (!item) return report_error(item.error());
  auto reports = reference::jacobian(options.name, *item);
  if (!reports) return report_error(reports.error());
  TextTable table({"map", "at", ">outputs", ">inputs", ">vjp error", ">difference error", "verdict"});
  bool pass = true;
  for (const reference::JacobianReport& report : *reports) {
    const bool good = report.vjp_error <= kVjpLimit && report.difference_error <= kDifferenceLimit;
    pass = pass && good;
    table.add({report.map, report.at, fmt::format("{}", report.matrix.shape()[0]),
               fmt::format("{}", report.matrix.shape()[1]), fmt::format("{:.2g}", report.vjp_error),
               fmt::format("{:.2g}", report.difference_error), coloured(good ? "PASS" : "FAIL")});
  }
  fmt::print("{}", table.plain());
  for (const reference::JacobianReport& report : *reports) fmt::print("{}: {}\n", report.map, report.formula);
  if (!options.csv.empty())
    if (auto status = golden::write_file(options.csv, csv_of(*reports)); !status) return report_error(status.error());
  return pass ? 0 : exit_code(ErrorCode::kCheckFailed);
}

}  // namespace

void add_jacobian_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<JacobianOptions>();
  CLI::App* command = app.add_subcommand(
      "jacobian", "Dense Jacobian of a map or stage on a tiny case, against its vjp and differences");
  command->add_option("stage", options->name, "A map or stage (plumbline list jacobians)")->required();
  command->add_option("case", options->item, "Case it is taken on; default csa");
  command->add_option("--csv", options->csv, "Write the matrices as comma-separated values")->check(not_empty());
  command->footer("Examples:\n  plumbline jacobian compressed_kv\n  plumbline jacobian pooling 'hca,ratio=8,seq=37'");
  command->callback([options, &exit_code] { exit_code = jacobian(*options); });
}

}  // namespace plumbline::tools
