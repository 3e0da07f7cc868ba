#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/case.hpp"

namespace plumbline::contract {

/// One case of a suite, and the comment on its line that says why it is there.
struct SuiteEntry {
  Case item;
  std::string reason;
  int line = 0;
};

/// Loads `<folder>/<name>.suite`: one case string (sweeps allowed) a line, `#` starts a comment, `include NAME` takes
/// in another suite of the folder. Errors name file and line; a case that stands twice is an error, as is a suite that
/// includes itself.
Result<std::vector<SuiteEntry>> load_suite(const std::string& folder, const std::string& name);

}  // namespace plumbline::contract
