#pragma once
#include <string>
#include <vector>

#include "reference/contract/problem.hpp"
#include "reference/contract/results.hpp"

namespace plumbline::compare {

/// What the comparison of one dataset came to.
enum class Verdict { kPass, kFail, kNotCompared };

/// fp64 limits: the error two correct double-precision implementations may differ by (`golden-format.md`).
struct Limits {
  double forward = 1e-13;
  double gradient = 1e-12;
  double loss = 1e-13;  ///< times loss_coeff * sum t (|ln t| + |ln p|) / (N or 1)
};

/// One dataset's comparison. `error` is max|got-want| / max|want| over specified, finite entries (absolute where the
/// expected tensor is all zero; for the loss in units of its condition; for selections the number of wrong rows).
struct DatasetVerdict {
  contract::DatasetId id;
  Verdict verdict = Verdict::kNotCompared;
  double error = 0;
  double limit = 0;
  contract::Index compared = 0;       ///< entries compared
  contract::Index wrong = 0;          ///< entries (or rows) beyond the limit
  std::vector<contract::Index> worst; ///< multi-index of the worst entry
  double got = 0, want = 0;           ///< values there
  std::string reason;                 ///< why it failed or was not compared
};

/// Compares every dataset that both sides hold, by the rule of `golden-format.md`; a dataset that `want` holds and
/// `got` lacks is reported as not compared. `problem` gives what is specified where.
std::vector<DatasetVerdict> compare_by_golden_rule(const contract::Problem& problem, const contract::Results& want,
                                                   const contract::Results& got, const Limits& limits = {});

}  // namespace plumbline::compare
