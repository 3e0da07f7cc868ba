#pragma once
#include <string_view>

namespace plumbline::contract {

/// Reports a broken invariant on stderr and ends the process with exit code 70 (EX_SOFTWARE).
[[noreturn]] void check_failed(const char* expression, std::string_view message, const char* file, int line);

}  // namespace plumbline::contract

/// An invariant of the program itself (never of its input): when false, the process ends with code 70.
#define PLUMBLINE_CHECK(condition, message)            \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::plumbline::contract::check_failed(#condition, message, __FILE__, __LINE__))
