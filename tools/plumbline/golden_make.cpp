#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "golden/golden_file.hpp"
#include "golden/manifest.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/golden_commands.hpp"
#include "tools/plumbline/golden_producer.hpp"
#include "tools/plumbline/interrupt.hpp"
#include "tools/plumbline/runner.hpp"

namespace plumbline::tools {

using namespace contract;
using golden::Contents;
namespace fs = std::filesystem;

namespace {

/// A file name for a case: its printed form with '=' and other marks made plain.
std::string file_name_for(const Case& item) {
  std::string name = print(item);
  for (char& c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '-') c = '_';
  return name + ".h5";
}

Contents contents_named(const std::string& name) {
  const auto found = std::find(golden::kContentsNames.begin(), golden::kContentsNames.end(), name);
  return static_cast<Contents>(found - golden::kContentsNames.begin());
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
  return run_fits_memory(item, *find_implementation("reference"), max_memory_bytes);
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

}  // namespace

int golden_make(const GoldenOptions& options) {
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
  const Contents contents = contents_named(options.contents);
  golden::Manifest manifest;
  const std::string folder_text = folder.empty() ? "." : folder.string();
  if (options.manifest && fs::exists(folder / golden::kManifestName)) {
    auto loaded = golden::load_manifest(folder_text);
    if (!loaded) return report_error(loaded.error());
    manifest = std::move(*loaded);
  }
  for (const Case& item : *cases) {
    const fs::path path = path_for(item);
    auto file = make_golden(item, contents);
    std::error_code ignored;
    if (file && fs::exists(path, ignored)) fmt::print("{}", describe_change(path.string(), *file).text);
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

}  // namespace plumbline::tools
