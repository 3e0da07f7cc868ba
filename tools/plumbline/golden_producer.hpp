#pragma once
#include <string>

#include "golden/golden_file.hpp"
#include "reference/contract/case.hpp"

// What `golden make` and `golden update` share.
namespace plumbline::tools {

/// Runs the reference on a case; what of it the file holds is said by `contents`.
contract::Result<golden::GoldenFile> make_golden(const contract::Case& item, golden::Contents contents);

/// What has moved in a file that is about to be replaced.
struct GoldenChange {
  bool moved = true;
  std::string text;  ///< one line a dataset that differs, and a summary
};
GoldenChange describe_change(const std::string& path, const golden::GoldenFile& now);

}  // namespace plumbline::tools
