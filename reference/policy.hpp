#pragma once
#include <vector>

#include "reference/contract/dataset.hpp"
#include "reference/contract/precision.hpp"
#include "reference/matrix.hpp"
#include "reference/rope.hpp"

namespace plumbline::reference {

using contract::CastPoint;
using contract::DatasetId;
using contract::StageId;
using contract::WeightId;

/// The arithmetic of a run of the layer body. The body is one text; what varies between the truth, an emulation of a
/// lower precision, a planted bug and a finite-difference probe is the policy it is instantiated with:
///
/// - `Scalar`, the type that holds every value;
/// - `product_*`, every matrix product, told which tensor it makes (so a policy can choose the accumulation format,
///   block length and order of that tensor);
/// - `on_stage`, called on every stage's value as soon as it is computed and before anything reads it, and
///   `on_gradient` likewise: the storage cast point, and the place to perturb or replace a value;
/// - `cast`, called wherever an implementation may round without storing (`contract::CastPoint`);
/// - `make_rope`, the table of rotations.
///
/// A policy derives from ExactPolicy and redeclares what it changes; the body calls it statically.
template <typename ScalarType>
struct ExactPolicy {
  using Scalar = ScalarType;
  using In = ConstMatrixMap<Scalar>;
  using Out = MatrixMap<Scalar>;

  /// c[m,n] (+)= a[m,k] b[n,k]^T. Serial; sums over k in Eigen's fixed order.
  void product_nt(DatasetId, Out c, In a, In b, bool accumulate) const {
    if (accumulate)
      c.noalias() += a * b.transpose();
    else
      c.noalias() = a * b.transpose();
  }
  /// c[m,n] (+)= a[m,k] b[k,n].
  void product_nn(DatasetId, Out c, In a, In b, bool accumulate) const {
    if (accumulate)
      c.noalias() += a * b;
    else
      c.noalias() = a * b;
  }
  /// c[m,n] (+)= a[k,m]^T b[k,n].
  void product_tn(DatasetId, Out c, In a, In b, bool accumulate) const {
    if (accumulate)
      c.noalias() += a.transpose() * b;
    else
      c.noalias() = a.transpose() * b;
  }

  /// Value of a stage: one row of `block` for each of `rows` (physical token rows, or compressed rows for entry
  /// stages), flattened to [rows, elements of one row].
  void on_stage(StageId, const std::vector<Index>& /*rows*/, Out /*block*/) const {}
  /// The same for a stage's gradient.
  void on_gradient(StageId, const std::vector<Index>& /*rows*/, Out /*block*/) const {}
  /// Values at a cast point, in place.
  void cast(CastPoint, Scalar* /*values*/, Index /*count*/) const {}
  Scalar cast(CastPoint, Scalar value) const { return value; }
  /// Whether anything is rounded at a cast point.
  bool rounds(CastPoint) const { return false; }

  RopeTable<Scalar> make_rope(const contract::LayerConfig& config, Index positions) const {
    return RopeTable<Scalar>(config, positions);
  }

  /// The selections of one query row, ascending; may be replaced.
  void on_selection(Index /*row*/, std::vector<Index>& /*entries*/) const {}
};

}  // namespace plumbline::reference
