#pragma once
#include <algorithm>
#include <vector>

#include "reference/context.hpp"

namespace plumbline::reference {

/// What one query sees, in compact rows: a contiguous window, and entries of its own segment.
struct QueryKeys {
  Index window_first = 0;    ///< compact token row of the first window key
  Index window_count = 0;    ///< at least 1: a query sees itself
  Index entry_first = 0;     ///< compact entry of the segment's group 0
  Index visible = 0;         ///< vis(t): groups 0 .. visible-1 may be seen
  std::vector<Index> picks;  ///< the groups attended to, ascending

  Index picked() const { return static_cast<Index>(picks.size()); }
  Index keys() const { return window_count + picked(); }
  bool picks_are_contiguous() const { return picks.empty() || picks.back() - picks.front() + 1 == picked(); }
};

/// A few queries of a token block that go through selection, attention and loss together. Per-query matrices have the
/// rows `heads` (or index heads) and one column a key: the window's first, then the picks.
template <typename Scalar>
struct QueryTile {
  Index first = 0;  ///< first query of the tile in its token block
  Index count = 0;
  Index head_count = 0;
  Index key_stride = 0;          ///< most keys of a query in the tile
  Index candidate_stride = 0;    ///< most candidates of a query in the tile
  std::vector<Index> rows;       ///< physical rows of its queries
  std::vector<Index> positions;  ///< t of each
  std::vector<QueryKeys> keys;

  Matrix<Scalar> scores;            ///< index_scores [count, n_max]; -inf where not visible
  Matrix<Scalar> logits;            ///< z, one row a query: [count, heads * key_stride]; p after the backward pass
  Matrix<Scalar> dlogits;           ///< dz * D^(-1/2), like logits
  Matrix<Scalar> lse;               ///< attn_lse [count, heads]
  Matrix<Scalar> dsink;             ///< each query's contribution [count, heads]
  Matrix<Scalar> candidate_logits;  ///< z of the loss's candidates [count, heads * candidate_stride]
  Matrix<Scalar> teacher;           ///< [count, n_max]
  Matrix<Scalar> predict;           ///< [count, n_max]
  Matrix<Scalar> kl;                ///< [count, 1]
  Matrix<Scalar> dscores;           ///< [count, n_max]
  Matrix<Scalar> drelu;             ///< cotangent of index_q . index_k, [count, Hi * candidate_stride]

  MatrixMap<Scalar> logits_of(Index i) {
    return map(logits.data() + i * logits.cols(), head_count, keys[i].keys(), key_stride);
  }
  MatrixMap<Scalar> dlogits_of(Index i) {
    return map(dlogits.data() + i * dlogits.cols(), head_count, keys[i].keys(), key_stride);
  }
};

/// Rows `picks` of the entries of one segment as a matrix: in place where they are contiguous, else copied to
/// `scratch`.
template <typename Scalar>
ConstMatrixMap<Scalar> picked_rows(const Matrix<Scalar>& entries, Index entry_first, const std::vector<Index>& picks,
                                   Matrix<Scalar>& scratch) {
  const Index count = static_cast<Index>(picks.size());
  if (count == 0) return map(entries.data(), 0, entries.cols());
  if (picks.back() - picks.front() + 1 == count) return rows_of(entries, entry_first + picks.front(), count);
  if (scratch.rows() < count || scratch.cols() != entries.cols()) scratch.resize(count, entries.cols());
  for (Index k = 0; k < count; ++k) scratch.row(k) = entries.row(entry_first + picks[k]);
  return rows_of(std::as_const(scratch), 0, count);
}

}  // namespace plumbline::reference
