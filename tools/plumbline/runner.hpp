#pragma once
#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "compare/golden_rule.hpp"
#include "compare/judge.hpp"
#include "reference/contract/case.hpp"
#include "reference/contract/implementation.hpp"
#include "reference/contract/sketch.hpp"

namespace plumbline::tools {

/// What became of one case with one implementation. Only kPassed is a pass.
enum class Outcome { kPassed, kFailed, kDeclined, kError, kNothingChecked };

std::string_view word_for(Outcome outcome);

/// How cases are run.
struct RunOptions {
  std::optional<contract::DatasetSet> only;  ///< restricts what is compared
  contract::DatasetSet keep;                 ///< results that the verdict hands back
  int repeat = 1;                            ///< runs whose results must be equal bit for bit
  double max_memory_bytes = 0;               ///< 0: no limit
  /// A file that holds no results passes if it generates its inputs and weights.
  bool fingerprints_suffice = false;
  std::function<void(double)> progress;
  std::function<bool()> cancelled;
};

/// One row of the verdict table.
struct CaseVerdict {
  std::string case_text;
  std::string implementation;
  std::string precision;  ///< profile by which it was judged
  std::string truth;      ///< what it was compared with
  Outcome outcome = Outcome::kNothingChecked;
  std::vector<compare::DatasetVerdict> datasets;    ///< of a judged case, its shares of the limits
  std::optional<compare::Judgement> judgement;      ///< of a profile below double precision
  std::optional<contract::Problem> judged_problem;  ///< of a failed judgement, to say where it failed
  std::vector<std::string> absent;                  ///< datasets of the layer that the truth does not hold
  std::optional<contract::Error> problem;           ///< why it was declined or could not be judged
  contract::Results kept;                           ///< of RunOptions::keep, what the first run returned
  std::string repro;                                ///< shows a failure again; empty: plumbline verify does
  int repeat = 1;                                   ///< runs made of it
  double seconds = 0;
  std::string moved;  ///< of a golden file that does not verify: generator, reference, file, or which it may be

  const compare::DatasetVerdict* worst() const;        ///< largest share of its limit
  const compare::DatasetVerdict* first_wrong() const;  ///< in the order of computation
  contract::Index compared() const;
  contract::Index failed() const;
};

/// A case with its numbers, and what it must give where a file holds that.
struct LoadedCase {
  contract::Problem problem;
  std::optional<contract::Results> expected;
  std::optional<contract::Sketches> sketches;

  /// The datasets that the file says something of; none: it says nothing of any, or the case is generated.
  std::optional<contract::DatasetSet> stated() const;
};

/// Generates the case, or reads the file that it names.
contract::Result<LoadedCase> load_case(const contract::Case& item, double max_memory_bytes,
                                       const std::function<bool()>& cancelled);

/// What `body` returns, a Result; an exception that leaves it is an error. Implementations run on threads where one
/// would end the program.
template <typename Body>
auto without_exceptions(const std::string& where, Body body) -> decltype(body()) {
  using contract::Error, contract::ErrorCode;
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kMemory, "ran out of memory; shorten the case or run fewer at a time", where};
  } catch (const std::exception& error) {
    return Error{ErrorCode::kInternal, std::string(error.what()) + ". This is a bug: please report it.", where};
  }
}

/// Runs one case with one implementation and judges the results: against the file's own for a `file=` case, else
/// against the wide-type reference (the double one if the implementation is the wide one).
CaseVerdict run_case(const contract::Case& item, const contract::Implementation& implementation,
                     const RunOptions& options);

/// Estimated peak bytes of run_case, for a generated case; 0 for a `file=` case, which is known once it is read.
/// kMemory if the inputs and weights alone are beyond any machine.
contract::Result<double> estimate_memory_bytes(const contract::Case& item,
                                               const contract::Implementation& implementation);

/// The same without a truth to judge by: inputs, weights and all results.
contract::Result<double> estimate_run_bytes(const contract::Case& item, const contract::Implementation& implementation);

/// OK, or kMemory with what is needed and what is allowed (0: everything is).
contract::Status allowed_memory(double bytes, double max_memory_bytes, const std::string& where);

/// allowed_memory of the estimate.
contract::Status fits_memory(const contract::Case& item, const contract::Implementation& implementation,
                             double max_memory_bytes);
contract::Status run_fits_memory(const contract::Case& item, const contract::Implementation& implementation,
                                 double max_memory_bytes);

/// What --max-memory says, "8G"; where it is empty 80 % of what is available (0, anything, if that is not known).
contract::Result<double> memory_limit(const std::string& option);

/// Exit code of a whole run: 1 if anything failed, else the code of the first error, else 6 if all was declined, else 3
/// if nothing was checked, else 0.
int exit_code_of(const std::vector<CaseVerdict>& verdicts);

}  // namespace plumbline::tools
