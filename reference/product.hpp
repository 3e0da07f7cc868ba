#pragma once
#include <algorithm>

#include "reference/policy.hpp"

// Matrix products of a whole token block, threaded over fixed tiles of the output. Every output element is summed by
// one thread in one order, so the bits do not depend on the number of threads.
namespace plumbline::reference {

/// Columns (or rows) of the output in one tile.
inline constexpr Index kProductTile = 256;

namespace detail {
/// body(first, count) for each tile of an axis; each tile by one thread.
template <typename Body>
void for_each_tile(Index extent, Index tile, bool threaded, Body body) {
  const Index tiles = (extent + tile - 1) / tile;
#pragma omp parallel for schedule(dynamic) if (threaded)
  for (Index i = 0; i < tiles; ++i) body(i * tile, std::min(tile, extent - i * tile));
}
}  // namespace detail

/// y[m,n] (+)= x[m,k] w[n,k]^T: a projection by a weight stored [output, input].
template <typename Policy>
void project(const Policy& policy, DatasetId id, typename Policy::Out y, typename Policy::In x, typename Policy::In w,
             bool accumulate = false) {
  detail::for_each_tile(
      w.rows(), kProductTile, worth_threads(x.rows(), w.rows(), w.cols()), [&](Index first, Index count) {
        policy.product_nt(id, map(y.data() + first, y.rows(), count, y.outerStride()), x,
                          map(w.data() + first * w.outerStride(), count, w.cols(), w.outerStride()), accumulate);
      });
}

/// dx[m,k] (+)= dy[m,n] w[n,k]: the projection's vjp with respect to its input.
template <typename Policy>
void project_input_vjp(const Policy& policy, DatasetId id, typename Policy::Out dx, typename Policy::In dy,
                       typename Policy::In w, bool accumulate = false) {
  detail::for_each_tile(w.cols(), kProductTile, worth_threads(dy.rows(), w.rows(), w.cols()),
                        [&](Index first, Index count) {
                          policy.product_nn(id, map(dx.data() + first, dx.rows(), count, dx.outerStride()), dy,
                                            map(w.data() + first, w.rows(), count, w.outerStride()), accumulate);
                        });
}

/// dw[n,k] += dy[m,n]^T x[m,k]: the projection's vjp with respect to its weight, summed over token blocks.
template <typename Policy>
void project_weight_vjp(const Policy& policy, DatasetId id, typename Policy::Out dw, typename Policy::In dy,
                        typename Policy::In x) {
  detail::for_each_tile(
      dw.rows(), kProductTile, worth_threads(x.rows(), dw.rows(), dw.cols()), [&](Index first, Index count) {
        policy.product_tn(id, map(dw.data() + first * dw.outerStride(), count, dw.cols(), dw.outerStride()),
                          map(dy.data() + first, dy.rows(), count, dy.outerStride()), x, true);
      });
}

}  // namespace plumbline::reference
