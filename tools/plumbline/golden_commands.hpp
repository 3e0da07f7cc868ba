#pragma once
#include <string>
#include <vector>

// The parts of `plumbline golden`; each returns its exit code.
namespace plumbline::tools {

struct GoldenOptions {
  std::vector<std::string> items;  ///< cases or files
  std::string out, reason, json, max_memory, left, right, contents = "stored";
  std::vector<std::string> bugs, names;
  bool manifest = false, replace = false, dry_run = false;
};

int golden_make(const GoldenOptions& options);
int golden_update(const GoldenOptions& options);
int golden_verify(const GoldenOptions& options);
int golden_diff(const GoldenOptions& options);
int golden_show(const GoldenOptions& options);

}  // namespace plumbline::tools
