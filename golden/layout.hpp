#pragma once
#include <string_view>

#include "reference/contract/dataset.hpp"

// Names and constants of the version-1 layout that reader and writer share.
namespace plumbline::golden {

inline constexpr std::string_view kFormatName = "plumbline-golden";
inline constexpr contract::Index kFormatVersion = 1;

/// Selections are stored as int64, everything else that is computed as float64.
constexpr bool stored_as_int64(contract::DatasetId id) {
  return id == contract::DatasetId::forward(contract::StageId::kTopk);
}

}  // namespace plumbline::golden
