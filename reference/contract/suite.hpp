#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/case.hpp"

namespace plumbline::contract {

/// One line of a suite file: a case, and the comment behind it that says why it is there.
struct SuiteEntry {
  Case item;
  std::string reason;
  int line = 0;
};

/// Parses suite text: one case string (sweeps allowed) a line, `#` starts a comment, `include NAME` takes in another
/// suite of the same folder. Errors name file and line; a case that appears twice is an error.
Result<std::vector<SuiteEntry>> parse_suite(std::string_view text, const std::string& name);

/// Loads `<folder>/<name>.suite`.
Result<std::vector<SuiteEntry>> load_suite(const std::string& folder, const std::string& name);

}  // namespace plumbline::contract
