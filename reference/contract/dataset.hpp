#pragma once
#include <bitset>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "reference/contract/stage.hpp"

namespace plumbline::contract {

/// Names one tensor that a run can produce: a stage's value, a stage's gradient, a weight's gradient or the
/// gradient of hidden. Dense, so arrays and bitsets can be indexed with it.
class DatasetId {
 public:
  static constexpr std::size_t kCount = 2 * kStageCount + kWeightCount + 1;

  static constexpr DatasetId forward(StageId id) { return DatasetId(static_cast<std::size_t>(id)); }
  static constexpr DatasetId gradient(StageId id) { return DatasetId(kStageCount + static_cast<std::size_t>(id)); }
  static constexpr DatasetId gradient(WeightId id) { return DatasetId(2 * kStageCount + static_cast<std::size_t>(id)); }
  static constexpr DatasetId hidden_gradient() { return DatasetId(kCount - 1); }
  static constexpr DatasetId from_index(std::size_t index) { return DatasetId(index); }

  constexpr std::size_t index() const { return index_; }
  constexpr bool is_forward() const { return index_ < kStageCount; }
  constexpr bool is_gradient() const { return !is_forward(); }
  /// The stage of a forward or stage-gradient dataset.
  constexpr std::optional<StageId> stage() const {
    if (index_ < 2 * kStageCount) return static_cast<StageId>(index_ % kStageCount);
    return std::nullopt;
  }
  constexpr std::optional<WeightId> weight() const {
    if (index_ >= 2 * kStageCount && index_ < 2 * kStageCount + kWeightCount)
      return static_cast<WeightId>(index_ - 2 * kStageCount);
    return std::nullopt;
  }
  constexpr bool operator==(const DatasetId&) const = default;

  constexpr Axes axes() const {
    if (auto s = stage()) return info(*s).axes;
    if (auto w = weight()) return info(*w).axes;
    return {Axis::kToken, Axis::kHidden};
  }

  /// The HDF5 path: "forward/q", "grad/forward/q", "grad/weights/wq_a", "grad/inputs/hidden".
  std::string path() const {
    if (is_forward()) return "forward/" + std::string(info(*stage()).name);
    if (auto s = stage()) return "grad/forward/" + std::string(info(*s).name);
    if (auto w = weight()) return "grad/weights/" + std::string(info(*w).name);
    return "grad/inputs/hidden";
  }

  /// Whether a layer of this configuration has the dataset.
  bool exists(const LayerConfig& config) const {
    if (is_forward()) return produced(info(*stage()), config);
    if (auto s = stage()) return info(*s).has_gradient && present(info(*s).presence, config);
    if (auto w = weight()) return present(info(*w).presence, config);
    return true;
  }

 private:
  constexpr explicit DatasetId(std::size_t index) : index_(index) {}
  std::size_t index_;
};

inline std::optional<DatasetId> find_dataset(std::string_view path) {
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (DatasetId::from_index(i).path() == path) return DatasetId::from_index(i);
  return std::nullopt;
}

/// A set of datasets.
using DatasetSet = std::bitset<DatasetId::kCount>;

/// Everything that a layer of this configuration has, forward only or with its gradients.
inline DatasetSet all_datasets(const LayerConfig& config, bool gradients = true) {
  DatasetSet set;
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    if (id.exists(config) && (id.is_forward() || gradients)) set.set(i);
  }
  return set;
}

}  // namespace plumbline::contract
