#pragma once
#include <algorithm>
#include <string>

#include "reference/contract/packing.hpp"
#include "reference/contract/tensor.hpp"

// SBHD, [S, B, ...], is a permuted view of the packed layout when all B segments have the same physical length S. All
// arithmetic of this project runs on the packed layout; these are the maps between the two.
namespace plumbline::contract {

/// Packed row of position s of sequence b, for sequences of `length` rows.
PLUMBLINE_HOST_DEVICE constexpr Index packed_row(Index s, Index b, Index length) { return b * length + s; }
/// SBHD row of the same, for `batch` sequences.
PLUMBLINE_HOST_DEVICE constexpr Index sbhd_row(Index s, Index b, Index batch) { return s * batch + b; }

/// OK if the batch can be viewed as SBHD; else which segment differs.
inline Status check_sbhd(const Packing& packing) {
  for (Index b = 1; b < packing.segments(); ++b)
    if (packing.physical_length(b) != packing.physical_length(0))
      return usage_error("layout", "sbhd needs segments of equal physical length, segment " + std::to_string(b) +
                                       " has " + std::to_string(packing.physical_length(b)) + " rows, segment 0 has " +
                                       std::to_string(packing.physical_length(0)) + "; use layout=thd or pad=");
  return {};
}

namespace detail {
template <typename Scalar>
BasicTensor<Scalar> transpose_rows(const BasicTensor<Scalar>& from, Shape shape, Index outer, Index inner) {
  BasicTensor<Scalar> to(std::move(shape));
  const Index width = outer * inner > 0 ? from.size() / (outer * inner) : 0;
  for (Index o = 0; o < outer; ++o)
    for (Index i = 0; i < inner; ++i)
      std::copy_n(from.data() + (o * inner + i) * width, width, to.data() + (i * outer + o) * width);
  return to;
}
}  // namespace detail

/// [B*S, ...] -> [S, B, ...]; also for entry tensors, [B*n, ...] -> [n, B, ...]. `batch` >= 1 divides axis 0.
template <typename Scalar>
BasicTensor<Scalar> to_sbhd(const BasicTensor<Scalar>& packed, Index batch) {
  Shape shape = packed.shape();
  const Index length = shape[0] / batch;
  shape[0] = batch;
  shape.insert(shape.begin(), length);
  return detail::transpose_rows(packed, std::move(shape), batch, length);
}

/// The inverse: [S, B, ...] -> [B*S, ...].
template <typename Scalar>
BasicTensor<Scalar> from_sbhd(const BasicTensor<Scalar>& sbhd) {
  const Index length = sbhd.shape()[0], batch = sbhd.shape()[1];
  Shape shape(sbhd.shape().begin() + 1, sbhd.shape().end());
  shape[0] = length * batch;
  return detail::transpose_rows(sbhd, std::move(shape), length, batch);
}

}  // namespace plumbline::contract
