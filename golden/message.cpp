#include "golden/message.hpp"

#include <array>
#include <charconv>
#include <cmath>

#include "reference/contract/nearest.hpp"

namespace plumbline::golden {

std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Inf" : "-Inf";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return std::string(digits.data(), end);
}

std::string place_text(contract::Index row, contract::Index column, bool scalar) {
  if (scalar) return "its only value";
  return "row " + std::to_string(row) + ", element " + std::to_string(column);
}

std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

std::string did_you_mean(std::string_view name, const std::vector<std::string_view>& known) {
  // Names from files have any length; the distance to a known one is beyond interest long before that.
  constexpr std::size_t kLongestName = 256;
  if (known.empty()) return "";
  const std::vector<std::string> names(known.begin(), known.end());
  return "; did you mean '" + contract::nearest_names(name.substr(0, kLongestName), names, 1).front() + "'?";
}

}  // namespace plumbline::golden
