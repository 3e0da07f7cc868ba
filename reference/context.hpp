#pragma once
#include <array>
#include <type_traits>

#include "reference/contract/communicator.hpp"
#include "reference/product.hpp"
#include "reference/rms_norm.hpp"
#include "reference/rope.hpp"
#include "reference/row_plan.hpp"
#include "reference/taps.hpp"

namespace plumbline::reference {

/// The heads [begin, begin + count) that this run computes: all of them, or one rank's whole output groups.
struct HeadRange {
  Index begin = 0;
  Index count = 0;
};

/// The layer's numbers in the policy's scalar: the caller's own memory when it is double, else one converted copy.
template <typename Scalar>
class Numbers {
 public:
  explicit Numbers(const contract::Problem& problem) : problem_(problem) {
    if constexpr (!std::is_same_v<Scalar, double>) {
      for (std::size_t i = 0; i < contract::kWeightCount; ++i)
        weights_[i] = contract::convert<Scalar>(problem.weights[i]);
    }
  }

  const Scalar* data(WeightId id) const {
    if constexpr (std::is_same_v<Scalar, double>)
      return problem_.weight(id).data();
    else
      return weights_[static_cast<std::size_t>(id)].data();
  }
  /// [shape[0], the rest] as stored: output x input.
  ConstMatrixMap<Scalar> matrix(WeightId id) const {
    const contract::Shape& shape = problem_.weight(id).shape();
    return map(data(id), shape[0], problem_.weight(id).row_size());
  }

 private:
  const contract::Problem& problem_;
  std::array<contract::BasicTensor<Scalar>, contract::kWeightCount> weights_;
};

/// What every part of the body shares during one run.
template <typename Policy>
struct Context {
  using Scalar = typename Policy::Scalar;

  const contract::Problem& problem;
  const Policy& policy;
  const RowPlan& plan;
  const RopeTable<Scalar>& rope;
  const Numbers<Scalar>& numbers;
  Taps<Scalar>& taps;
  contract::Communicator<Scalar>& communicator;
  HeadRange heads;
  bool backward;

  const contract::LayerConfig& config() const { return problem.config; }
  Scalar eps() const { return Scalar(problem.config.eps); }
  ConstMatrixMap<Scalar> weight(WeightId id) const { return numbers.matrix(id); }
  const Scalar* vector(WeightId id) const { return numbers.data(id); }

  /// Hands a stage's value to the policy (which may round or replace it), then to the taps. `offset`: first element of
  /// a row that this rank's block covers.
  void emit(StageId id, const std::vector<Index>& rows, MatrixMap<Scalar> block, Index offset = 0) const {
    const MatrixMap<Scalar> filled =
        map(block.data(), static_cast<Index>(rows.size()), block.cols(), block.outerStride());
    policy.on_stage(id, rows, filled);
    taps.store(DatasetId::forward(id), rows, read_only<Scalar>(filled), offset);
  }
  void emit_gradient(StageId id, const std::vector<Index>& rows, MatrixMap<Scalar> block, Index offset = 0) const {
    const MatrixMap<Scalar> filled =
        map(block.data(), static_cast<Index>(rows.size()), block.cols(), block.outerStride());
    policy.on_gradient(id, rows, filled);
    taps.store(DatasetId::gradient(id), rows, read_only<Scalar>(filled), offset);
  }

  /// rms_norm of one row; the policy may round between the division and the gain.
  void normalise(const Scalar* x, const Scalar* gain, Index n, Scalar* y) const {
    if (!gain || !policy.rounds(CastPoint::kRmsNormalized)) return rms_norm(x, gain, eps(), n, y);
    rms_norm<Scalar>(x, nullptr, eps(), n, y);
    policy.cast(CastPoint::kRmsNormalized, y, n);
    for (Index i = 0; i < n; ++i) y[i] *= gain[i];
  }

  /// Rounds at a cast point, then rotates: what RoPE is applied to in the forward pass.
  void rotate(Scalar* x, Index width, Index t) const {
    policy.cast(CastPoint::kUnrotated, x, width);
    rope.rotate(x, width, t);
  }

  /// dx += dy w: one path's contribution to the gradient of hidden.
  void add_hidden_gradient(Matrix<Scalar>& dx, ConstMatrixMap<Scalar> dy, WeightId id) const {
    project_input_vjp(policy, DatasetId::hidden_gradient(), all(dx), dy, weight(id), true);
    policy.cast(CastPoint::kHiddenPartial, dx.data(), dx.size());
  }

  /// dw += dy^T x for a weight, if its gradient is wanted. `first_row` is where a rank's rows of the weight begin.
  void add_weight_gradient(WeightId id, ConstMatrixMap<Scalar> dy, ConstMatrixMap<Scalar> x,
                           Index first_row = 0) const {
    Scalar* gradient = taps.weight_gradient(id);
    if (!gradient) return;
    project_weight_vjp(policy, DatasetId::gradient(id), map(gradient + first_row * x.cols(), dy.cols(), x.cols()), dy,
                       x);
  }

  /// Rows of an input tensor ([T, hidden], double) for a token block, zero-filled to a whole number of row quanta.
  void gather(const contract::Tensor& from, const TokenBlock& block, Matrix<Scalar>& to) const {
    to.setZero(round_up_rows(block.count()), from.row_size());
    for (Index r = 0; r < block.count(); ++r) {
      const double* row = from.row(block.physical[r]);
      std::copy(row, row + from.row_size(), to.data() + r * to.cols());
    }
  }
};

}  // namespace plumbline::reference
