#pragma once
#include <string>

#include "golden/golden_file.hpp"

namespace plumbline::tools {

/// How two goldens differ.
struct GoldenDifference {
  std::string other_problem;  ///< the first part of the problem in which they differ; then nothing was compared
  int compared = 0;           ///< datasets
  int wrong = 0;              ///< of them beyond the limit
  std::string table;          ///< the datasets that differ; empty: none
  std::string summary;        ///< one line
};

/// Compares `got` with `want`, tensors with tensors and sketches with sketches, or with the sketch of a tensor.
GoldenDifference compare_goldens(const golden::GoldenFile& want, const golden::GoldenFile& got);

}  // namespace plumbline::tools
