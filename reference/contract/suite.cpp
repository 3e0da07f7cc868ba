#include "reference/contract/suite.hpp"

#include <algorithm>
#include <fstream>
#include <set>

namespace plumbline::contract {
namespace {

std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

/// Everything one load carries through its includes.
struct Loading {
  std::string folder;
  std::set<std::string> open;  ///< suites being read, to see a cycle
  std::set<std::string> seen;  ///< printed cases
  std::vector<SuiteEntry> entries;
};

Status load(Loading& loading, const std::string& name) {
  const std::string path = loading.folder + "/" + name + ".suite";
  if (!loading.open.insert(name).second) return usage_error(path, "includes itself");
  std::ifstream file(path);
  if (!file) return file_error(path, "cannot be read; suites are files NAME.suite, see plumbline list suites");
  std::string text;
  for (int line = 1; std::getline(file, text); ++line) {
    const std::string where = path + ":" + std::to_string(line);
    const std::size_t hash = std::min(text.find('#'), text.size());
    const std::string body = trim(text.substr(0, hash));
    const std::string reason = hash < text.size() ? trim(text.substr(hash + 1)) : "";
    if (body.empty()) continue;
    if (body.starts_with("include ")) {
      if (auto status = load(loading, trim(body.substr(8))); !status) return status;
      continue;
    }
    auto cases = parse_cases(body);
    if (!cases) return Error{cases.error().code, cases.error().text(), where};
    for (Case& item : *cases) {
      if (!loading.seen.insert(print(item)).second) return usage_error(where, "case stands twice: " + print(item));
      loading.entries.push_back({std::move(item), reason, line});
    }
  }
  loading.open.erase(name);
  return {};
}

}  // namespace

Result<std::vector<SuiteEntry>> load_suite(const std::string& folder, const std::string& name) {
  Loading loading{folder, {}, {}, {}};
  if (auto status = load(loading, name); !status) return status.error();
  return std::move(loading.entries);
}

}  // namespace plumbline::contract
