#pragma once
// Eigen never threads by itself here: we thread over fixed blocks, so that results do not depend on the thread count.
#define EIGEN_DONT_PARALLELIZE
// Nor does it take its short cut for tiny products, whose summation order depends on where in memory a row lies.
#define EIGEN_GEMM_TO_COEFFBASED_THRESHOLD 1
#include <Eigen/Core>

#include "reference/contract/tensor.hpp"
#include "reference/threads.hpp"

namespace plumbline::reference {

using contract::Index;

/// Row-major matrices with a run-time row stride; rows are tokens, heads, entries or output channels.
template <typename Scalar>
using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename Scalar>
using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;

using RowStride = Eigen::OuterStride<>;
template <typename Scalar>
using MatrixMap = Eigen::Map<Matrix<Scalar>, Eigen::Unaligned, RowStride>;
template <typename Scalar>
using ConstMatrixMap = Eigen::Map<const Matrix<Scalar>, Eigen::Unaligned, RowStride>;

template <typename Scalar>
MatrixMap<Scalar> map(Scalar* data, Index rows, Index cols, Index stride) {
  return MatrixMap<Scalar>(data, rows, cols, RowStride(stride));
}
template <typename Scalar>
MatrixMap<Scalar> map(Scalar* data, Index rows, Index cols) {
  return map(data, rows, cols, cols);
}
template <typename Scalar>
ConstMatrixMap<Scalar> map(const Scalar* data, Index rows, Index cols, Index stride) {
  return ConstMatrixMap<Scalar>(data, rows, cols, RowStride(stride));
}
template <typename Scalar>
ConstMatrixMap<Scalar> map(const Scalar* data, Index rows, Index cols) {
  return map(data, rows, cols, cols);
}
/// All of a matrix, or `count` of its rows from `first`.
template <typename Scalar>
MatrixMap<Scalar> rows_of(Matrix<Scalar>& m, Index first, Index count) {
  return map(m.data() + first * m.cols(), count, m.cols());
}
template <typename Scalar>
ConstMatrixMap<Scalar> rows_of(const Matrix<Scalar>& m, Index first, Index count) {
  return map(m.data() + first * m.cols(), count, m.cols());
}
template <typename Scalar>
MatrixMap<Scalar> all(Matrix<Scalar>& m) {
  return rows_of(m, 0, m.rows());
}
template <typename Scalar>
ConstMatrixMap<Scalar> all(const Matrix<Scalar>& m) {
  return rows_of(m, 0, m.rows());
}

/// The same elements, read only.
template <typename Scalar>
ConstMatrixMap<Scalar> read_only(const MatrixMap<Scalar>& m) {
  return map(static_cast<const Scalar*>(m.data()), m.rows(), m.cols(), m.outerStride());
}

/// Products see token blocks only in multiples of this many rows (zero rows fill up). A row's result then does not
/// depend, not even in its last bit, on where in a block it stands or on what stands beside it: the GEMM kernels treat
/// a block's remainder rows with another summation order. A multiple of every micro-tile height in use.
inline constexpr Index kRowQuantum = 24;

constexpr Index round_up_rows(Index rows) { return (rows + kRowQuantum - 1) / kRowQuantum * kRowQuantum; }

}  // namespace plumbline::reference
