#pragma once
#include <string_view>
#include <vector>

#include "reference/contract/case.hpp"

namespace plumbline::contract {

/// A model shape of the released family, or a tiny one of the same structure.
struct Preset {
  std::string_view name;
  std::string_view meaning;
};

/// tiny: every size small and different, window shorter than the sequence, more visible entries than picks, a
/// fractional YaRN ramp. tiny-tp: the same with 16 heads in 8 output groups and 8 indexer heads. flash, pro: the
/// released models.
const std::vector<Preset>& presets();

/// Configuration of one layer kind in a model's shape; usage error for an unknown name.
Result<LayerConfig> preset(LayerKind kind, std::string_view model);

/// Real length where a case names none: 37 for tiny shapes (300 for hca), 1024 for real ones.
Index default_length(LayerKind kind, std::string_view model);

}  // namespace plumbline::contract
