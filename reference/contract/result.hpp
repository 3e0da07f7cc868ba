#pragma once
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace plumbline::contract {

/// What kind of thing went wrong. Kinds are never mixed: a caller error names the argument, a declined request
/// is legal but not supported here, a file error is about bytes from outside.
enum class ErrorCode {
  kUsage,        ///< malformed case, impossible configuration or packing, candidate of another case
  kFile,         ///< absent, unreadable, truncated, wrong version, shape or dtype
  kNonFinite,    ///< NaN or Inf where the contract forbids it
  kCheckFailed,  ///< a comparison failed
  kNothing,      ///< nothing was checked
  kCandidate,    ///< a candidate crashed or timed out
  kDeclined,     ///< legal, but not supported by this implementation
  kMemory,       ///< would not fit the memory allowed
  kInterrupted,  ///< the user asked to stop
  kInternal,     ///< a failed internal check
};

/// The process exit code of an error (the table in README, "Exit codes").
constexpr int exit_code(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCheckFailed: return 1;
    case ErrorCode::kUsage:
    case ErrorCode::kMemory: return 2;
    case ErrorCode::kNothing: return 3;
    case ErrorCode::kFile:
    case ErrorCode::kNonFinite: return 4;
    case ErrorCode::kCandidate: return 5;
    case ErrorCode::kDeclined: return 6;
    case ErrorCode::kInterrupted: return 130;
    case ErrorCode::kInternal: break;
  }
  return 70;
}

/// An error as a value: `message` is one line that says what, got, allowed and what to do; `where` is the
/// argument, dataset or file it is about (may be empty).
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string where;

  std::string text() const { return where.empty() ? message : where + ": " + message; }
};

/// A value or an Error. Library functions return this; they do not print, exit or throw across a folder.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// Success or an Error, where there is no value to return.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

inline Error usage_error(std::string where, std::string message) {
  return Error{ErrorCode::kUsage, std::move(message), std::move(where)};
}

inline Error file_error(std::string where, std::string message) {
  return Error{ErrorCode::kFile, std::move(message), std::move(where)};
}

}  // namespace plumbline::contract
