#pragma once
#include <array>
#include <functional>
#include <optional>
#include <string>

#include "golden/golden_file.hpp"
#include "reference/contract/number_format.hpp"

// Candidate files: what somebody else's implementation gave for the problem of a golden file. They have the layout of
// goldens, and everything but `format`, `format_version` and one result is optional (docs/golden-format.md).
namespace plumbline::golden {

/// A candidate file in memory.
struct CandidateFile {
  std::string case_text;      ///< attribute `case`; empty: absent
  std::string producer;       ///< attribute `producer`; empty: absent
  contract::Results results;  ///< the values, exactly; NaN and Inf anywhere
  /// What each result is stored in: kFp64, kFp32, kFp16 or kBf16. None for absent ones and for selections, which are
  /// integers.
  std::array<std::optional<contract::NumberFormat>, contract::DatasetId::kCount> formats;
};

/// Reads a candidate for `problem`, which must be valid, strictly: names, types, shapes, and that whatever the file
/// holds of a problem is this one. Configuration and packing must be equal; inputs and weights too, bit for bit, on
/// rows that the contract specifies (hidden: real tokens, grad_out: valid rows), or rounded to the format they are
/// stored in. Rounding to fp16 and bf16 may go through fp32, as PyTorch's does. Values of results are not looked at:
/// selections out of range, NaN and Inf are for a judge. Nothing is allocated before the sizes that the file declares
/// were checked. In this process: see `read_candidate_guarded` for files from outside.
///
/// Errors: kFile for the bytes and the layout, kUsage for a candidate of another case, kNothing if there is no result,
/// kMemory for values of more than `memory_bytes`. `where` is the path, the message names the object.
contract::Result<CandidateFile> read_candidate(const std::string& path, const contract::Problem& problem,
                                               double memory_bytes = kDefaultMemoryBytes);

/// `read_candidate` in a child process with limits, as `read_guarded` does for goldens.
contract::Result<CandidateFile> read_candidate_guarded(const std::string& path, const contract::Problem& problem,
                                                       double memory_bytes = kDefaultMemoryBytes,
                                                       double seconds = kDefaultSeconds,
                                                       const std::function<bool()>& cancelled = {});

/// Writes the results, and case and producer unless empty; byte-deterministically, and whole or not at all, like
/// `write`. Floats are rounded to nearest to their format (absent: kFp64), bf16 as uint16 patterns; selections are
/// int64. `cancelled`, which may be empty, is asked before each dataset; true ends the call with kInterrupted.
///
/// Errors: kNothing without results, kUsage for a format that files do not have, a format of a selection, a selection
/// that is not an integer, text that is not UTF-8.
contract::Status write_candidate(const std::string& path, const CandidateFile& candidate,
                                 const std::function<bool()>& cancelled = {});

}  // namespace plumbline::golden
