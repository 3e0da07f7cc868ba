#include "tools/plumbline/case_options.hpp"

#include <fmt/format.h>

#include "reference/contract/suite.hpp"
#include "tools/plumbline/console.hpp"
#include "tools/plumbline/runner.hpp"

namespace plumbline::tools {

using namespace contract;

Result<std::vector<Case>> collect_cases(const std::vector<std::string>& texts, std::vector<std::string> suites,
                                        const std::string& filter) {
  std::vector<Case> cases;
  for (const std::string& text : texts) {
    auto parsed = parse_cases(text);
    if (!parsed) return parsed.error();
    cases.insert(cases.end(), parsed->begin(), parsed->end());
  }
  if (suites.empty() && texts.empty()) suites.push_back("smoke");
  for (const std::string& suite : suites) {
    const bool is_path = suite.ends_with(".suite");
    const std::size_t slash = suite.rfind('/');
    const std::string folder = !is_path                     ? PLUMBLINE_SUITE_DIR
                               : slash == std::string::npos ? "."
                                                            : suite.substr(0, slash);
    const std::string file = slash == std::string::npos ? suite : suite.substr(slash + 1);
    auto entries = load_suite(folder, is_path ? file.substr(0, file.size() - 6) : suite);
    if (!entries) return entries.error();
    for (SuiteEntry& entry : *entries) cases.push_back(std::move(entry.item));
  }
  std::erase_if(cases, [&](const Case& item) { return print(item).find(filter) == std::string::npos; });
  return cases;
}

Result<std::vector<const Implementation*>> collect_implementations(const std::vector<std::string>& names) {
  std::vector<const Implementation*> found;
  for (const std::string& name : names) {
    const Implementation* implementation = find_implementation(name);
    if (!implementation) {
      std::string known;
      for (const Implementation* other : implementations()) known += (known.empty() ? "" : ", ") + other->name();
      return usage_error("--impl", "unknown implementation '" + name + "', allowed: " + known);
    }
    found.push_back(implementation);
  }
  return found;
}

int dry_run(const std::vector<Job>& jobs, double max_memory_bytes, const std::string& command) {
  TextTable table({"case", "implementation", ">memory", ""});
  std::size_t refused = 0;
  for (const Job& job : jobs) {
    const auto bytes = estimate_memory_bytes(job.item, *job.implementation);
    const bool fits = fits_memory(job.item, *job.implementation, max_memory_bytes).ok();
    refused += !fits;
    table.add({print(job.item), job.implementation->name(),
               !job.item.file.empty() ? "by the file"
               : bytes                ? human_bytes(*bytes)
                                      : "> 1 TB",
               fits ? "" : "does not fit"});
  }
  fmt::print("{}{} runs, none done (--dry-run); {} allowed for each\n", table.plain(), jobs.size(),
             max_memory_bytes > 0 ? human_bytes(max_memory_bytes) : "any memory");
  if (refused == 0) return 0;
  return report_error(
      {ErrorCode::kMemory,
       fmt::format("{} of {} runs do not fit; raise --max-memory or shorten them", refused, jobs.size()), command});
}

}  // namespace plumbline::tools
