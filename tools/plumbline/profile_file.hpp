#pragma once
#include <string>

#include "reference/contract/precision.hpp"
#include "reference/contract/result.hpp"

namespace plumbline::tools {

/// A precision profile by name, or from a JSON file (text that ends in .json):
///   {"name": ..., "base": NAME, "meaning": ..., "inputs": FORMAT, "weights": FORMAT, "compute": FORMAT,
///    "accumulation": FORMAT, "angles": "exact" | "fp32", "storage": {DATASET: FORMAT}, "casts": {POINT: FORMAT}}
/// Everything but `base` is optional and replaces what the base says. Unknown keys, formats, datasets and cast points
/// are usage errors with the nearest known name.
contract::Result<contract::PrecisionProfile> load_profile(const std::string& text);

}  // namespace plumbline::tools
