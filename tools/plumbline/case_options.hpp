#pragma once
#include <string>
#include <vector>

#include "reference/contract/case.hpp"
#include "reference/contract/implementation.hpp"

namespace plumbline::tools {

/// One thing to do: a case with an implementation.
struct Job {
  contract::Case item;
  const contract::Implementation* implementation;
};

/// The cases of a command line in its order, case strings before suites (by name, or a path ending in .suite); the
/// suite smoke where neither is given. Only those stay whose printed form contains `filter`.
contract::Result<std::vector<contract::Case>> collect_cases(const std::vector<std::string>& cases,
                                                            std::vector<std::string> suites, const std::string& filter);

/// Implementations by name. kUsage for a name that none has.
contract::Result<std::vector<const contract::Implementation*>> collect_implementations(
    const std::vector<std::string>& names);

/// Prints the jobs with their memory estimates. Returns the exit code: 2 where one does not fit.
int dry_run(const std::vector<Job>& jobs, double max_memory_bytes, const std::string& command);

}  // namespace plumbline::tools
