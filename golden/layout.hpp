#pragma once
#include <string_view>

#include "reference/contract/dataset.hpp"
#include "reference/contract/number_format.hpp"

// Names and constants of the layout that reader and writer share.
namespace plumbline::golden {

inline constexpr std::string_view kFormatName = "plumbline-golden";
/// What candidate files may call themselves; they have the same layout.
inline constexpr std::string_view kCandidateFormatName = "plumbline-candidate";
/// Files with inputs and weights in them, and files whose case generates these.
inline constexpr contract::Index kStoredVersion = 1, kGeneratedVersion = 2;
/// Attribute of a candidate's dataset, and the only value it has.
inline constexpr std::string_view kStorageAttribute = "storage_dtype", kStorageBf16 = "bf16";

/// Selections are stored as int64, everything else that is computed as float64.
constexpr bool stored_as_int64(contract::DatasetId id) {
  return id == contract::DatasetId::forward(contract::StageId::kTopk);
}

/// The formats that a candidate's floats may be stored in.
constexpr bool storable(contract::NumberFormat format) {
  using contract::NumberFormat;
  return format == NumberFormat::kFp64 || format == NumberFormat::kFp32 || format == NumberFormat::kFp16 ||
         format == NumberFormat::kBf16;
}

}  // namespace plumbline::golden
