#include "tools/plumbline/console.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace plumbline::tools {

int report_error(const contract::Error& error) {
  std::fflush(stdout);  // what was said before the error is read before it
  fmt::print(stderr, "plumbline: error: {}\n", error.text());
  return contract::exit_code(error.code);
}

TextTable::TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {
  for (std::string& heading : headings_) {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
}

void TextTable::add(std::vector<std::string> cells) {
  cells.resize(headings_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::plain() const {
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_) widths.push_back(heading.size());
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string one;
    for (std::size_t i = 0; i < cells.size(); ++i)
      one += right_[i] ? fmt::format("{:>{}}  ", cells[i], widths[i]) : fmt::format("{:<{}}  ", cells[i], widths[i]);
    one.erase(one.find_last_not_of(' ') + 1);
    text += one + "\n";
  };
  line(headings_);
  for (const auto& row : rows_) line(row);
  return text;
}

std::string TextTable::markdown() const {
  std::string text = "|";
  for (const std::string& heading : headings_) text += " " + heading + " |";
  text += "\n|";
  for (const bool right : right_) text += right ? "---:|" : "---|";
  text += "\n";
  for (const auto& row : rows_) {
    text += "|";
    for (std::string cell : row) {
      for (std::size_t at = 0; (at = cell.find('|', at)) != std::string::npos; at += 2) cell.replace(at, 1, "\\|");
      text += " " + cell + " |";
    }
    text += "\n";
  }
  return text;
}

std::string TextTable::json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& row : rows_) {
    nlohmann::ordered_json object;
    for (std::size_t i = 0; i < row.size(); ++i) object[headings_[i]] = row[i];
    list.push_back(std::move(object));
  }
  return list.dump(2) + "\n";
}

std::string coloured(std::string_view word) {
  static const bool enabled = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  if (!enabled) return std::string(word);
  const char* colour = word == "PASS"                                         ? "\033[32m"
                       : word == "FAIL" || word == "WRONG" || word == "ERROR" ? "\033[31m"
                                                                              : "\033[33m";
  return colour + std::string(word) + "\033[0m";
}

ProgressBar::ProgressBar(bool quiet) : enabled_(!quiet && isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() { clear(); }

void ProgressBar::show(double fraction, std::string_view what) {
  if (!enabled_) return;
  constexpr int kWidth = 30;
  const int done = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * kWidth);
  fmt::print(stderr, "\r\033[K[{:=<{}}{: <{}}] {:3.0f} % {}", "", done, "", kWidth - done, fraction * 100, what);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::clear() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  drawn_ = false;
}

contract::Status may_write(const std::string& option, const std::string& path) {
  if (path.empty()) return {};
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    return contract::file_error(path, "is a folder; " + option + " takes the name of a file");
  const std::filesystem::path folder = std::filesystem::absolute(path, error).parent_path();
  if (!std::filesystem::is_directory(folder, error))
    return contract::file_error(path, "cannot be written: there is no folder " + folder.string());
  if (::access(folder.c_str(), W_OK) != 0)
    return contract::file_error(path, "cannot be written in its folder: " + std::string(std::strerror(errno)));
  return {};
}

std::string human_bytes(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  int unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit) bytes /= 1024;
  return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

contract::Result<double> parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string unit(end, text.data() + text.size());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::vector<std::pair<std::string, double>> units = {
      {"", 1},         {"b", 1},      {"k", 1024.0},   {"kib", 1024.0}, {"m", 0x1p20},
      {"mib", 0x1p20}, {"g", 0x1p30}, {"gib", 0x1p30}, {"t", 0x1p40},   {"tib", 0x1p40}};
  for (const auto& [name, factor] : units)
    if (error == std::errc() && unit == name && value > 0 && value * factor < 0x1p63) return value * factor;
  return contract::usage_error("--max-memory",
                               "got '" + std::string(text) + "', allowed: a number > 0 with K, M, G or T, as in 8G");
}

double available_memory_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  double kibibytes = 0;
  for (std::string rest; file >> name >> kibibytes && std::getline(file, rest);)
    if (name == "MemAvailable:") return kibibytes * 1024;
  return 0;
}

}  // namespace plumbline::tools
