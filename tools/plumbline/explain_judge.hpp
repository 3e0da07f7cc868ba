#pragma once
#include <string>

#include "reference/contract/result.hpp"

namespace plumbline::tools {

/// The budget's formula of a stage, gradient or weight (by name or dataset path), and the constants with their basis.
contract::Result<std::string> explain_budget(const std::string& name);

/// What the judge's gates are, their constants and what these rest on.
std::string explain_gates();

/// How profiles are written in files, and the cast points there are.
std::string explain_profile_files();

}  // namespace plumbline::tools
