#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "reference/contract/dataset.hpp"
#include "reference/contract/problem.hpp"

namespace plumbline::contract {

/// What is kept of a tensor that is too large to keep: enough to see that one element of it changed and in which rows.
///
/// The tensor is a matrix [rows, columns] of its first axis and all others (a scalar: [1, 1]). Entries that count are
/// those that the contract specifies (`specified_rows`) and that are finite; others stand as 0. Rows of a selection
/// stand in descending order, so that equal sets have equal sketches.
struct Sketch {
  static constexpr int kProjections = 8;
  static constexpr Index kSampleRows = 8, kSampleColumns = 16;
  static constexpr Index kMostNorms = 1024;

  Index counted = 0;   ///< entries that count
  double largest = 0;  ///< max |x|
  double norm = 0;     ///< sqrt(sum x^2)
  /// sum of s_k(e) x(e) over the flat index e, for k = 0..7, with signs s_k(e) = +-1 by bit 8 (e mod 16) + k of
  /// philox(key, kSketchStream, e div 16), set: -1. `key` is the FNV-1a hash of the dataset's path.
  std::array<double, kProjections> projections{};
  /// x[r, c] for evenly spaced rows r = floor(i (rows - 1) / (n - 1)), n = min(rows, 8), and columns likewise with
  /// n = min(columns, 16); row-major.
  std::vector<double> samples;
  /// sqrt(sum x^2) over block b of consecutive rows, ceil(rows / 1024) of them in each (the last may have fewer),
  /// rounded to float32.
  std::vector<double> norms;

  bool operator==(const Sketch&) const = default;
};

/// The sketches that a file holds, by dataset.
using Sketches = std::array<std::optional<Sketch>, DatasetId::kCount>;

inline constexpr std::uint32_t kSketchStream = 0x736b;

/// Indices along one axis that `Sketch::samples` takes; of an axis without any, none.
std::vector<Index> sample_places(Index extent, Index most);

/// Sums go over fixed blocks in their order: the same bits for every number of threads.
Sketch make_sketch(DatasetId id, const Tensor& tensor, const Problem& problem);

/// A tensor's extents as the sketch sees them.
struct SketchShape {
  Index rows = 1, columns = 1;
  Index samples() const;
  Index rows_per_norm() const;
  Index norms() const;
};
SketchShape sketch_shape(const Shape& shape);

}  // namespace plumbline::contract
