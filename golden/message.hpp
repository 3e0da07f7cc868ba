#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/types.hpp"

// How numbers, places and names appear in messages about files.
namespace plumbline::golden {

/// The shortest text that reads back as the same number; "NaN", "Inf" and "-Inf".
std::string number_text(double value);

/// "row 3, element 17"; "its only value" of a scalar.
std::string place_text(contract::Index row, contract::Index column, bool scalar);

/// "config, packing, inputs"
std::string listed(const std::vector<std::string_view>& names);

/// "; did you mean 'wq_a'?": the known name nearest to an unknown one. Empty if nothing is known.
std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace plumbline::golden
