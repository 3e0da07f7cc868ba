#pragma once
#include <bitset>
#include <cmath>
#include <optional>
#include <vector>

#include "reference/run_layer.hpp"

// Derivatives of the objective by differences, from the forward pass alone: the layer's body in long double, with the
// selection and the teacher held at recorded values, since both are constants to the contract's gradients.
namespace plumbline::tests {

using contract::DatasetId;
using contract::Index;
using contract::StageId;
using contract::WeightId;

using Wide = long double;
using WideTensor = contract::BasicTensor<Wide>;
using WideResults = contract::BasicResults<Wide>;

/// A direction in which one tensor of the layer moves: a stage's value, a weight, or hidden.
struct Direction {
  DatasetId dataset;  ///< the gradient that belongs to the tensor
  WideTensor values;  ///< of its shape
};

/// Exact arithmetic in long double, with some stages replaced by recorded values and one moved along a direction.
class ProbePolicy : public reference::ExactPolicy<Wide> {
 public:
  /// Ascending entries of each physical row's selection.
  using Selections = std::vector<std::vector<Index>>;

  explicit ProbePolicy(const Selections& selections) : selections_(&selections) {}

  /// Stages in `held` take their values from `recorded`, whatever is computed.
  void hold(const WideResults& recorded, const std::bitset<contract::kStageCount>& held) {
    recorded_ = &recorded;
    held_ = held;
  }
  void move(StageId id, const WideTensor& direction, Wide step) {
    moved_ = id;
    direction_ = &direction;
    step_ = step;
  }

  void on_stage(StageId id, const std::vector<Index>& rows, Out block) const {
    if (held_.test(static_cast<std::size_t>(id))) {
      const WideTensor& values = recorded_->at(DatasetId::forward(id));
      for (std::size_t r = 0; r < rows.size(); ++r)
        for (Index c = 0; c < block.cols(); ++c) block(static_cast<Index>(r), c) = values.row(rows[r])[c];
    }
    if (moved_ != id) return;
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (Index c = 0; c < block.cols(); ++c) block(static_cast<Index>(r), c) += step_ * direction_->row(rows[r])[c];
  }
  void on_selection(Index row, std::vector<Index>& entries) const {
    entries = (*selections_)[static_cast<std::size_t>(row)];
  }

 private:
  const Selections* selections_;
  const WideResults* recorded_ = nullptr;
  std::bitset<contract::kStageCount> held_;
  std::optional<StageId> moved_;
  const WideTensor* direction_ = nullptr;
  Wide step_ = 0;
};

/// Differences of the objective sum(out * grad_out) + loss_scale * indexer_loss of one problem.
class Probe {
 public:
  /// `picks` [T, K]: the selection to hold, as in forward/topk. The problem's numbers must be multiples of `kGrid`, so
  /// that a weight or hidden plus a step is exact in double.
  Probe(contract::Problem problem, const contract::Tensor& picks) : problem_(std::move(problem)) {
    const contract::LayerConfig& c = problem_.config;
    selections_.resize(static_cast<std::size_t>(problem_.packing.tokens()));
    for (Index row = 0; c.indexer && row < picks.shape()[0]; ++row)
      for (Index k = 0; k < picks.row_size(); ++k)
        if (picks.row(row)[k] >= 0) selections_[row].push_back(static_cast<Index>(picks.row(row)[k]));
    const Wide rows = static_cast<Wide>(std::max<Index>(problem_.packing.valid_rows(), 1));
    kl_weight_ = Wide(c.loss_scale) * Wide(c.loss_coeff) / (c.per_token_loss ? 1 : rows);
    contract::Request everything;
    everything.wanted = contract::all_datasets(c, false);
    recorded_ = *reference::run_layer(problem_, everything, ProbePolicy(selections_));
  }

  static constexpr double kGrid = 0x1p-24;
  /// A multiple of the grid too; small, so that no ReLU of the indexer changes sides, and so that the central
  /// difference's second-order error (1e-12) stays near its rounding (1e-13).
  static constexpr Wide kStep = 0x1p-20L;

  const contract::Problem& problem() const { return problem_; }
  const WideResults& recorded() const { return recorded_; }

  /// d objective / d direction as the sum over rows of what each row's out and kl_rows contribute, [T].
  std::vector<Wide> slopes(const Direction& direction) const {
    const Rows up = objective(direction, kStep), down = objective(direction, -kStep);
    std::vector<Wide> slope(up.kl.values().size(), 0);
    const Index hidden = problem_.config.hidden;
    for (Index row = 0; row < problem_.packing.tokens(); ++row) {
      if (!problem_.packing.row_valid[row]) continue;
      for (Index c = row * hidden; c < (row + 1) * hidden; ++c)
        slope[row] += (up.out[c] - down.out[c]) * Wide(problem_.grad_out[c]);
      slope[row] += kl_weight_ * (up.kl[row] - down.kl[row]);
      slope[row] /= 2 * kStep;
    }
    return slope;
  }
  Wide slope(const Direction& direction) const {
    Wide total = 0;
    for (const Wide row : slopes(direction)) total += row;
    return total;
  }

 private:
  struct Rows {
    WideTensor out;  ///< [T, hidden]
    WideTensor kl;   ///< [T]
  };

  /// What the gradient of a tensor takes as constant: always the teacher, and for what the indexer reads detached, the
  /// indexer.
  static std::bitset<contract::kStageCount> constants_of(DatasetId id) {
    std::bitset<contract::kStageCount> held;
    held.set(static_cast<std::size_t>(StageId::kTeacher));
    const bool detached = id == DatasetId::hidden_gradient() || id == DatasetId::gradient(WeightId::kWqA) ||
                          id == DatasetId::gradient(WeightId::kQNorm) || id == DatasetId::gradient(StageId::kQDown) ||
                          id == DatasetId::gradient(StageId::kQLatent);
    if (detached)
      for (const StageId stage : {StageId::kIndexQ, StageId::kIndexK, StageId::kIndexW})
        held.set(static_cast<std::size_t>(stage));
    return held;
  }

  Rows objective(const Direction& direction, Wide step) const {
    ProbePolicy policy(selections_);
    policy.hold(recorded_, constants_of(direction.dataset));
    contract::Request request;
    request.wanted.set(DatasetId::forward(StageId::kOut).index());
    request.wanted.set(DatasetId::forward(StageId::kKlRows).index());
    const auto stage = direction.dataset.stage();
    if (stage) policy.move(*stage, direction.values, step);
    auto results =
        *reference::run_layer(stage ? problem_ : moved(direction, static_cast<double>(step)), request, policy);
    return {std::move(results.at(DatasetId::forward(StageId::kOut))),
            std::move(results.at(DatasetId::forward(StageId::kKlRows)))};
  }

  contract::Problem moved(const Direction& direction, double step) const {
    contract::Problem problem = problem_;
    const auto weight = direction.dataset.weight();
    contract::Tensor& tensor = weight ? problem.weight(*weight) : problem.hidden;
    for (Index i = 0; i < tensor.size(); ++i) tensor[i] += step * static_cast<double>(direction.values[i]);
    return problem;
  }

  contract::Problem problem_;
  ProbePolicy::Selections selections_;
  Wide kl_weight_ = 0;
  WideResults recorded_;
};

/// Rounds every finite number of a problem to a multiple of Probe::kGrid.
inline void round_to_grid(contract::Problem& problem) {
  const auto round = [](contract::Tensor& tensor) {
    for (double& value : tensor.values())
      if (std::isfinite(value)) value = std::nearbyint(value / Probe::kGrid) * Probe::kGrid;
  };
  round(problem.hidden);
  round(problem.grad_out);
  for (contract::Tensor& weight : problem.weights) round(weight);
}

}  // namespace plumbline::tests
