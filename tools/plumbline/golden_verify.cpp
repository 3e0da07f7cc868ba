#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "golden/manifest.hpp"
#include "golden/text.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/golden_commands.hpp"
#include "tools/plumbline/interrupt.hpp"
#include "tools/plumbline/report.hpp"
#include "tools/plumbline/runner.hpp"
#include "tools/plumbline/verdicts.hpp"

namespace plumbline::tools {

using namespace contract;
namespace fs = std::filesystem;

namespace {

/// What the manifest beside a file says of it.
struct Listing {
  bool listed = false;
  std::string fault;  ///< why the file is not what is recorded; empty: it is
};

Result<Listing> look_up(const std::string& path) {
  const fs::path file(path);
  const std::string folder = file.has_parent_path() ? file.parent_path().string() : ".";
  std::error_code ignored;
  if (!fs::exists(fs::path(folder) / golden::kManifestName, ignored)) return Listing();
  auto manifest = golden::load_manifest(folder);
  if (!manifest) return manifest.error();
  auto faults = golden::verify_checksums(*manifest, folder);
  if (!faults) return faults.error();
  Listing listing;
  listing.listed = manifest->find(file.filename().string()) != nullptr;
  for (const golden::ManifestFault& fault : *faults)
    if (fault.name == file.filename().string()) listing.fault = fault.message;
  return listing;
}

/// Which side moved, of generator, reference and file.
std::string side_that_moved(const CaseVerdict& verdict, const Listing& listing) {
  if (!listing.fault.empty()) return "file";
  if (verdict.outcome != Outcome::kFailed) return "";
  if (verdict.problem) return "generator";
  return listing.listed ? "reference" : "reference or file";
}

std::string explain_side(const std::string& moved) {
  if (moved == "file") return "its bytes are not those that its manifest records";
  if (moved == "generator") return "the case no longer generates the inputs and weights that the file was made with";
  if (moved == "reference")
    return "the file is as recorded and its problem is the same, but the reference computes something else";
  return "no manifest lists the file, so it may have changed as well as the reference";
}

}  // namespace

int golden_verify(const GoldenOptions& options) {
  if (auto status = may_write("--json", options.json); !status) return report_error(status.error());
  std::vector<CaseVerdict> verdicts;
  RunOptions run;
  run.cancelled = interrupted;
  auto limit = memory_limit(options.max_memory);
  if (!limit) return report_error(limit.error());
  run.max_memory_bytes = *limit;
  run.fingerprints_suffice = true;
  std::string faults;
  ProgressBar bar(false);
  for (const std::string& path : options.items) {
    if (interrupted()) break;
    run.progress = [&](double fraction) {
      bar.show((static_cast<double>(verdicts.size()) + fraction) / static_cast<double>(options.items.size()), path);
    };
    Case item;
    item.file = path;
    auto listing = look_up(path);
    if (!listing) return report_error(listing.error());
    CaseVerdict verdict = run_case(item, *find_implementation("reference"), run);
    verdict.moved = side_that_moved(verdict, *listing);
    if (!listing->fault.empty())
      faults +=
          fmt::format("{}  {}: {}; goldens change with 'plumbline golden make --manifest --replace --reason ...'\n",
                      coloured("FAIL"), path, listing->fault);
    verdicts.push_back(std::move(verdict));
  }
  bar.clear();
  if (interrupted())
    return report_error({ErrorCode::kInterrupted, "interrupted; no report was written", "golden verify"});
  TextTable table({"file", ">datasets", ">absent", ">worst share", "worst dataset", "moved", "verdict"});
  for (const CaseVerdict& v : verdicts) {
    const compare::DatasetVerdict* worst = v.worst();
    table.add({golden::printable(v.case_text.substr(5)), fmt::format("{}", v.compared()),
               fmt::format("{}", v.absent.size()), worst ? fmt::format("{:.3g}", worst->share()) : "",
               worst ? worst->id.path() : "", v.moved, coloured(word_for(v.outcome))});
  }
  fmt::print("{}", table.plain());
  for (const CaseVerdict& v : verdicts) {
    if (!v.absent.empty() && v.outcome != Outcome::kError)
      fmt::print("\n{}: not in the file, so not compared: {}\n", v.case_text.substr(5), fmt::join(v.absent, " "));
    fmt::print("{}", notes(v));
    if (v.outcome == Outcome::kFailed) fmt::print("\n{}", failure_report(v));
    if (!v.moved.empty()) fmt::print("{}: the {} moved: {}\n", v.case_text.substr(5), v.moved, explain_side(v.moved));
  }
  report_case_errors(verdicts);
  fmt::print("\n{}\n", summary_line(verdicts));
  int code = exit_code_of(verdicts);
  fmt::print("{}", faults);
  if (code == 0 && !faults.empty()) code = exit_code(ErrorCode::kCheckFailed);
  if (!options.json.empty())
    if (auto status = write_report(options.json, verdicts, code); !status) return report_error(status.error());
  return code;
}

}  // namespace plumbline::tools
