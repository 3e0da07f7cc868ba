#pragma once
#include <algorithm>
#include <limits>
#include <vector>

#include "reference/contract/implementation.hpp"
#include "reference/matrix.hpp"

namespace plumbline::reference {

using contract::DatasetId;
using contract::StageId;
using contract::WeightId;

/// The tensors that a run was asked for, filled as the body computes them. What nobody asked for costs nothing.
template <typename Scalar>
class Taps {
 public:
  Taps(const contract::Request& request, const contract::LayerConfig& config, const contract::Packing& packing) {
    for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
      const DatasetId id = DatasetId::from_index(i);
      if (!request.wants(id) || !id.exists(config)) continue;
      results_.set(id, contract::BasicTensor<Scalar>(contract::shape_of(id.axes(), config, packing), fill(id)));
    }
  }

  bool wants(DatasetId id) const { return results_.has(id); }
  contract::BasicResults<Scalar>& results() { return results_; }

  /// Copies row r of `block` to row rows[r] of the dataset, from element `offset` of that row on.
  void store(DatasetId id, const std::vector<Index>& rows, ConstMatrixMap<Scalar> block, Index offset = 0) {
    contract::BasicTensor<Scalar>* tensor = results_.find(id);
    if (!tensor) return;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      const Scalar* from = block.data() + static_cast<Index>(r) * block.outerStride();
      std::copy(from, from + block.cols(), tensor->row(rows[r]) + offset);
    }
  }

  /// Adds instead of copying: for `hidden`'s gradient, which collects from several paths.
  void add(DatasetId id, const std::vector<Index>& rows, ConstMatrixMap<Scalar> block) {
    contract::BasicTensor<Scalar>* tensor = results_.find(id);
    if (!tensor) return;
    for (std::size_t r = 0; r < rows.size(); ++r)
      map(tensor->row(rows[r]), 1, block.cols()) += block.row(static_cast<Index>(r));
  }

  /// A weight's gradient as a matrix [shape[0], the rest]; null data when not asked for.
  Scalar* weight_gradient(WeightId id) {
    contract::BasicTensor<Scalar>* tensor = results_.find(DatasetId::gradient(id));
    return tensor ? tensor->data() : nullptr;
  }

 private:
  /// What rows without the query role hold, and entries that nobody selected.
  static Scalar fill(DatasetId id) {
    if (id == DatasetId::forward(StageId::kIndexScores) || id == DatasetId::forward(StageId::kMaxLogits))
      return -std::numeric_limits<Scalar>::infinity();
    if (id == DatasetId::forward(StageId::kTopk)) return Scalar(-1);
    return Scalar(0);
  }

  contract::BasicResults<Scalar> results_;
};

}  // namespace plumbline::reference
