#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/result.hpp"

namespace plumbline::tools {

/// Prints "plumbline: error: <where>: <what>" on stderr and returns the exit code of the error.
int report_error(const contract::Error& error);

/// A table with left-aligned text columns, or right-aligned where the heading starts with '>'.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings);
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string plain() const;
  std::string markdown() const;
  /// A list of objects, one a row, with the headings as keys.
  std::string json() const;

 private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<std::string>> rows_;
};

/// A verdict word, coloured when standard output is a terminal and NO_COLOR is not set.
std::string coloured(std::string_view word);

/// A progress line on standard error, drawn only on a terminal.
class ProgressBar {
 public:
  explicit ProgressBar(bool quiet);
  ~ProgressBar();
  void show(double fraction, std::string_view what);
  void clear();

 private:
  bool enabled_;
  bool drawn_ = false;
};

/// OK where a file could be written: in a folder that exists and can be written, not itself a folder; checked before
/// long work. `path` may be empty. kFile otherwise.
contract::Status may_write(const std::string& option, const std::string& path);

/// "1.4 GiB".
std::string human_bytes(double bytes);

/// "12", "1.5G", "800MiB" -> bytes.
contract::Result<double> parse_bytes(std::string_view text);

/// Bytes the machine says are available; 0 if it does not say.
double available_memory_bytes();

}  // namespace plumbline::tools
