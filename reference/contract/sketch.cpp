#include "reference/contract/sketch.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "reference/contract/random.hpp"
#include "reference/contract/specified.hpp"

namespace plumbline::contract {
namespace {

/// A block is summed by one thread, and one call of philox signs `kSigned` elements.
constexpr Index kBlock = 4096, kSigned = 128 / Sketch::kProjections;

/// FNV-1a, 64 bits.
std::uint64_t hash(std::string_view text) {
  std::uint64_t h = 0xcbf29ce484222325;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return h;
}

/// Entries that do not count are 0, and selections are sorted.
Tensor counting_entries(DatasetId id, const Tensor& tensor, const Problem& problem, Index& counted) {
  Tensor kept(tensor.shape());
  const std::vector<bool> rows = specified_rows(id, problem);
  const bool selection = id == DatasetId::forward(StageId::kTopk);
  const Index columns = tensor.row_size();
  counted = 0;
  for (Index r = 0; r < static_cast<Index>(rows.size()); ++r) {
    if (!rows[static_cast<std::size_t>(r)]) continue;
    const double* from = tensor.row(r);
    double* to = kept.row(r);
    for (Index c = 0; c < columns; ++c) {
      if (!std::isfinite(from[c])) continue;
      to[c] = from[c];
      ++counted;
    }
    if (selection) std::sort(to, to + columns, std::greater<>());
  }
  return kept;
}

using Sums = std::array<double, Sketch::kProjections>;

/// The signs of each byte of random bits.
using SignTable = std::array<Sums, 256>;
SignTable make_sign_table() {
  SignTable table;
  for (unsigned byte = 0; byte < table.size(); ++byte)
    for (unsigned k = 0; k < Sketch::kProjections; ++k) table[byte][k] = (byte >> k & 1u) != 0 ? -1.0 : 1.0;
  return table;
}

Sums signed_sums(std::uint64_t key, const SignTable& table, const Tensor& x, Index begin, Index end) {
  Sums sums{};
  for (Index e = begin; e < end; e += kSigned) {
    const auto bits = philox(key, kSketchStream, static_cast<std::uint64_t>(e / kSigned));
    for (Index i = 0; i < std::min(kSigned, end - e); ++i) {
      const std::uint32_t byte = bits[static_cast<std::size_t>(i / 4)] >> (Sketch::kProjections * (i % 4)) & 0xffu;
      const Sums& signs = table[byte];
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += signs[k] * x[e + i];
    }
  }
  return sums;
}

Sums project(std::uint64_t key, const Tensor& x) {
  static const SignTable table = make_sign_table();
  const Index blocks = (x.size() + kBlock - 1) / kBlock;
  std::vector<Sums> parts(static_cast<std::size_t>(blocks));
#pragma omp parallel for schedule(static) if (blocks > 16)
  for (Index b = 0; b < blocks; ++b)
    parts[static_cast<std::size_t>(b)] = signed_sums(key, table, x, b * kBlock, std::min((b + 1) * kBlock, x.size()));
  Sums sums{};
  for (const Sums& part : parts)
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += part[k];
  return sums;
}

}  // namespace

std::vector<Index> sample_places(Index extent, Index most) {
  const Index n = std::min(extent, most);
  std::vector<Index> places;
  for (Index i = 0; i < n; ++i) places.push_back(n > 1 ? i * (extent - 1) / (n - 1) : 0);
  return places;
}

SketchShape sketch_shape(const Shape& shape) {
  SketchShape s;
  if (shape.empty()) return s;
  s.rows = shape[0];
  for (std::size_t axis = 1; axis < shape.size(); ++axis) s.columns *= shape[axis];
  return s;
}

Index SketchShape::samples() const {
  return std::min(rows, Sketch::kSampleRows) * std::min(columns, Sketch::kSampleColumns);
}

Index SketchShape::rows_per_norm() const {
  return std::max<Index>(1, (rows + Sketch::kMostNorms - 1) / Sketch::kMostNorms);
}

Index SketchShape::norms() const { return (rows + rows_per_norm() - 1) / rows_per_norm(); }

Sketch make_sketch(DatasetId id, const Tensor& tensor, const Problem& problem) {
  Sketch sketch;
  const Tensor x = counting_entries(id, tensor, problem, sketch.counted);
  const SketchShape shape = sketch_shape(x.shape());
  sketch.projections = project(hash(id.path()), x);
  for (const Index r : sample_places(shape.rows, Sketch::kSampleRows))
    for (const Index c : sample_places(shape.columns, Sketch::kSampleColumns))
      sketch.samples.push_back(x[r * shape.columns + c]);
  double whole = 0;
  for (Index b = 0; b < shape.norms(); ++b) {
    double block = 0;
    for (Index r = b * shape.rows_per_norm(); r < std::min((b + 1) * shape.rows_per_norm(), shape.rows); ++r) {
      double row = 0;
      for (Index c = 0; c < shape.columns; ++c) {
        const double v = x[r * shape.columns + c];
        sketch.largest = std::max(sketch.largest, std::abs(v));
        row += v * v;
      }
      block += row;
    }
    sketch.norms.push_back(static_cast<float>(std::sqrt(block)));
    whole += block;
  }
  sketch.norm = std::sqrt(whole);
  return sketch;
}

}  // namespace plumbline::contract
