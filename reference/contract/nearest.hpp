#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace plumbline::contract {

/// The `count` names with the fewest edits from a misspelt one, nearest first: for "did you mean".
std::vector<std::string> nearest_names(std::string_view name, std::vector<std::string> names, std::size_t count);

}  // namespace plumbline::contract
