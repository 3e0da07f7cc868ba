#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "golden/manifest.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/golden_commands.hpp"
#include "tools/plumbline/golden_producer.hpp"
#include "tools/plumbline/interrupt.hpp"
#include "tools/plumbline/runner.hpp"

namespace plumbline::tools {

using namespace contract;
namespace fs = std::filesystem;

namespace {

/// One file of the manifest, made again; prints what moved. `moved` counts the files that change.
Status update_one(const fs::path& folder, const golden::ManifestEntry& entry, bool dry_run, double max_memory_bytes,
                  golden::Manifest& manifest, const std::string& reason, int& moved) {
  const std::string path = (folder / entry.name).string();
  auto contents =
      golden::read_contents_guarded(path, golden::kDefaultMemoryBytes, golden::kDefaultSeconds, interrupted);
  if (!contents) return contents.error();
  auto item = parse_case(entry.case_text);
  if (!item) return item.error();
  if (auto s = run_fits_memory(*item, *find_implementation("reference"), max_memory_bytes); !s) return s;
  auto file = make_golden(*item, *contents);
  if (!file) return file.error();
  const GoldenChange change = describe_change(path, *file);
  fmt::print("{}", change.text);
  if (!change.moved) return {};
  ++moved;
  if (dry_run) return {};
  if (auto s = golden::write(path, *file, interrupted); !s) return s;
  const std::vector<std::string> bugs = entry.bugs;
  const std::string name = entry.name, text = entry.case_text;
  // After each file, so that what an interrupted run leaves is listed.
  if (auto s = golden::update_entry(manifest, folder.string(), name, text, bugs, golden::today(), reason); !s) return s;
  return golden::save_manifest(folder.string(), manifest);
}

}  // namespace

int golden_update(const GoldenOptions& options) {
  if (auto status = golden::check_record(options.reason, {}); !status && !options.dry_run)
    return report_error({status.error().code, status.error().message, "--reason"});
  const fs::path folder = options.items.front();
  auto manifest = golden::load_manifest(folder.string());
  if (!manifest) return report_error(manifest.error());
  auto limit = memory_limit(options.max_memory);
  if (!limit) return report_error(limit.error());
  std::vector<golden::ManifestEntry> entries;
  for (const golden::ManifestEntry& entry : manifest->entries)
    if (options.names.empty() ||
        std::find(options.names.begin(), options.names.end(), entry.name) != options.names.end())
      entries.push_back(entry);
  for (const std::string& name : options.names)
    if (manifest->find(name) == nullptr)
      return report_error(usage_error("--file", "'" + name + "' is not in the manifest of " + folder.string()));
  int moved = 0;
  for (const golden::ManifestEntry& entry : entries) {
    const Status status = update_one(folder, entry, options.dry_run, *limit, *manifest, options.reason, moved);
    if (interrupted())
      return report_error(
          {ErrorCode::kInterrupted, "interrupted; files after " + entry.name + " were not updated", "golden update"});
    if (!status) return report_error(status.error());
  }
  fmt::print("{} of {} files {}\n", moved, entries.size(), options.dry_run ? "would change" : "changed");
  return 0;
}

}  // namespace plumbline::tools
