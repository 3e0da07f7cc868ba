#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/case.hpp"
#include "reference/exact.hpp"

// What the tests of the layer's properties share: kinds of layers, runs of the reference, problems laid out anew, and
// comparisons of whole sets of results that name the first dataset and entry at fault.
namespace plumbline::tests {

using namespace contract;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A layer kind that a property is tested for, as the beginning of a case string.
struct Kind {
  const char* name;
  const char* text;
};

inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.text; }

inline std::vector<Kind> all_kinds() {
  return {{"swa", "swa"},
          {"csa", "csa"},
          {"csa_dense_loss", "csa,loss=dense"},
          {"csa_per_token", "csa,loss=dense,per_token_loss=on,loss_scale=3"},
          {"csa_compressed_only", "csa,teacher=compressed_only"},
          {"csa_dense_mode", "csa,indexer=off"},
          {"hca", "hca,ratio=6"},
          {"overlap3", "csa,ratio=3,index_topk=4"},
          {"indexed5", "csa,ratio=5,overlap=off,index_topk=2"},
          {"one_head", "csa,heads=1,o_groups=1,index_heads=1,hidden=9,head_dim=10,q_lora_rank=7,o_lora_rank=1"}};
}

inline std::vector<Kind> compressing_kinds() {
  std::vector<Kind> kinds = all_kinds();
  kinds.erase(kinds.begin());
  return kinds;
}

inline std::vector<Kind> indexing_kinds() {
  std::vector<Kind> kinds = all_kinds();
  std::erase_if(kinds, [](const Kind& k) {
    const std::string_view name = k.name;
    return name == "swa" || name == "hca" || name == "csa_dense_mode";
  });
  return kinds;
}

inline std::string kind_name(const testing::TestParamInfo<Kind>& test) { return test.param.name; }

inline Problem case_problem(std::string_view text) {
  const auto parsed = parse_case(text);
  if (!parsed) throw std::runtime_error(parsed.error().text());
  auto problem = make_problem(*parsed);
  if (!problem) throw std::runtime_error(problem.error().text());
  return std::move(*problem);
}

inline Problem case_problem(const Kind& kind, const std::string& rest) {
  return case_problem(std::string(kind.text) + "," + rest);
}

/// Everything that the layer has, or what is asked for.
template <typename Scalar = double>
BasicResults<Scalar> run(const Problem& problem, Request request = {}) {
  if (request.wanted.none()) request.wanted = all_datasets(problem.config);
  auto results = reference::run_exact<Scalar>(problem, request);
  if (!results) throw std::runtime_error(results.error().text());
  return std::move(*results);
}

template <typename Body>
void for_each_dataset(const Results& results, Body body) {
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (const DatasetId id = DatasetId::from_index(i); results.has(id)) body(id, results.at(id));
}

/// Whether the dataset belongs to the indexer and its loss.
inline bool is_indexer(DatasetId id) {
  if (const auto stage = id.stage()) return info(*stage).presence == Presence::kIndexer;
  if (const auto weight = id.weight()) return info(*weight).presence == Presence::kIndexer;
  return false;
}

inline bool is_indexer_gradient(DatasetId id) { return id.is_gradient() && is_indexer(id); }
inline bool has_axis(DatasetId id, Axis axis) {
  const Axes axes = id.axes();
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}
inline bool has_rows(DatasetId id) { return has_axis(id, Axis::kToken) || has_axis(id, Axis::kEntry); }

using Among = std::function<bool(DatasetId)>;
inline bool everything(DatasetId) { return true; }

/// What stands where nothing was computed.
inline double fill_of(DatasetId id) {
  if (id == DatasetId::forward(StageId::kIndexScores) || id == DatasetId::forward(StageId::kMaxLogits))
    return -kInfinity;
  return id == DatasetId::forward(StageId::kTopk) ? -1 : 0;
}

inline std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }
inline bool equal_bits(double a, double b) { return bits_of(a) == bits_of(b); }
inline bool equal_values(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Compares two sets of results, entry by entry; fails at the first entry that is not `equal`, or if `got` lacks a
/// dataset.
inline testing::AssertionResult same(const Results& want, const Results& got, const Among& among,
                                     bool (*equal)(double, double)) {
  testing::AssertionResult result = testing::AssertionSuccess();
  for_each_dataset(want, [&](DatasetId id, const Tensor& tensor) {
    if (!among(id) || !result) return;
    if (!got.has(id) || got.at(id).shape() != tensor.shape()) {
      result = testing::AssertionFailure() << id.path() << " is absent or of another shape";
      return;
    }
    for (Index e = 0; e < tensor.size(); ++e)
      if (!equal(tensor[e], got.at(id)[e])) {
        result = testing::AssertionFailure() << id.path() << " element " << e << " of " << to_string(tensor.shape())
                                             << ": got " << got.at(id)[e] << ", want " << tensor[e];
        return;
      }
  });
  return result;
}

inline testing::AssertionResult same_bits(const Results& want, const Results& got, const Among& among = everything) {
  return same(want, got, among, equal_bits);
}
inline testing::AssertionResult same_values(const Results& want, const Results& got, const Among& among = everything) {
  return same(want, got, among, equal_values);
}

/// max|got - want| / max|want| over finite entries (absolute where want is all zero); infinite where infinities differ
/// in place, at NaN, and for another shape.
inline double difference(const Tensor& want, const Tensor& got) {
  if (want.shape() != got.shape()) return kInfinity;
  double scale = 0, largest = 0;
  for (Index e = 0; e < want.size(); ++e) {
    if (std::isfinite(want[e]) && std::isfinite(got[e])) {
      scale = std::max(scale, std::abs(want[e]));
      largest = std::max(largest, std::abs(got[e] - want[e]));
    } else if (!(want[e] == got[e])) {
      return kInfinity;
    }
  }
  return scale > 0 ? largest / scale : largest;
}

/// Every dataset within `limit` by `difference`.
inline testing::AssertionResult close(const Results& want, const Results& got, double limit,
                                      const Among& among = everything) {
  testing::AssertionResult result = testing::AssertionSuccess();
  for_each_dataset(want, [&](DatasetId id, const Tensor& tensor) {
    if (!among(id) || !result) return;
    const double error = got.has(id) ? difference(tensor, got.at(id)) : kInfinity;
    if (!(error <= limit))
      result = testing::AssertionFailure()
               << id.path() << " differs by " << error << " of its largest, limit " << limit;
  });
  return result;
}

/// No NaN in any dataset.
inline testing::AssertionResult no_nan(const Results& results) {
  testing::AssertionResult result = testing::AssertionSuccess();
  for_each_dataset(results, [&](DatasetId id, const Tensor& tensor) {
    if (std::any_of(tensor.values().begin(), tensor.values().end(), [](double v) { return std::isnan(v); }))
      result = testing::AssertionFailure() << id.path() << " holds NaN";
  });
  return result;
}

inline bool all_zero(const Tensor& tensor) {
  return std::all_of(tensor.values().begin(), tensor.values().end(), [](double v) { return v == 0; });
}

/// Physical rows of the real tokens, of one segment or of all.
inline std::vector<Index> real_rows(const Packing& packing, std::optional<Index> segment = {}) {
  std::vector<Index> rows;
  for (Index b = 0; b < packing.segments(); ++b)
    for (Index t = 0; t < packing.lengths[static_cast<std::size_t>(b)]; ++t)
      if (!segment || *segment == b) rows.push_back(packing.offsets[static_cast<std::size_t>(b)] + t);
  return rows;
}

/// Compressed rows whose group is all real tokens, of one segment or of all.
inline std::vector<Index> real_entries(const Packing& packing, Index ratio, std::optional<Index> segment = {}) {
  std::vector<Index> rows;
  Index first = 0;
  for (Index b = 0; b < packing.segments(); ++b) {
    for (Index g = 0; g < group_count(packing.lengths[static_cast<std::size_t>(b)], ratio); ++g)
      if (!segment || *segment == b) rows.push_back(first + g);
    first += packing.groups(b, ratio);
  }
  return rows;
}

/// Rows of axis 0 that a dataset has for the real tokens (or whole groups) of one segment or of all.
inline std::vector<Index> real_rows_of(DatasetId id, const Problem& problem, std::optional<Index> segment = {}) {
  return id.axes()[0] == Axis::kEntry ? real_entries(problem.packing, problem.config.ratio, segment)
                                      : real_rows(problem.packing, segment);
}

/// The part of results that does not depend on how a batch is laid out: rows of real tokens and whole groups, of one
/// segment or of all, with `candidates` compressed columns, or picks. Columns left out must be at their fill value.
inline Results real_part(const Results& results, const Problem& problem, Index candidates,
                         std::optional<Index> segment = {}) {
  Results part;
  for_each_dataset(results, [&](DatasetId id, const Tensor& tensor) {
    if (!has_rows(id)) {
      part.set(id, tensor);
      return;
    }
    const std::vector<Index> rows = real_rows_of(id, problem, segment);
    Shape shape = tensor.shape();
    shape[0] = static_cast<Index>(rows.size());
    if (has_axis(id, Axis::kCandidate) || has_axis(id, Axis::kPick)) shape[1] = candidates;
    Tensor to(shape, fill_of(id));
    for (Index r = 0; r < shape[0]; ++r)
      for (Index e = 0; e < tensor.row_size(); ++e) {
        const double value = tensor.row(rows[static_cast<std::size_t>(r)])[e];
        if (e < to.row_size()) {
          to.row(r)[e] = value;
        } else {
          EXPECT_EQ(value, fill_of(id)) << id.path() << " beyond its last visible column";
        }
      }
    part.set(id, std::move(to));
  });
  return part;
}

/// The most compressed entries of any segment.
inline Index most_candidates(const Problem& problem) {
  return problem.config.indexer ? problem.packing.max_groups(problem.config.ratio) : 0;
}

/// The real tokens of a problem, in order, in another packing with as many real tokens; their validity goes with them.
/// Padding holds `padding`.
inline Problem laid_out(const Problem& from, Packing packing, double padding) {
  Problem to = from;
  const std::vector<Index> source = real_rows(from.packing), target = real_rows(packing);
  EXPECT_EQ(source.size(), target.size());
  std::fill(packing.row_valid.begin(), packing.row_valid.end(), std::uint8_t{0});
  to.hidden = to.grad_out = Tensor({packing.tokens(), from.config.hidden}, padding);
  for (std::size_t r = 0; r < source.size(); ++r) {
    std::copy_n(from.hidden.row(source[r]), from.config.hidden, to.hidden.row(target[r]));
    std::copy_n(from.grad_out.row(source[r]), from.config.hidden, to.grad_out.row(target[r]));
    packing.row_valid[static_cast<std::size_t>(target[r])] =
        from.packing.row_valid[static_cast<std::size_t>(source[r])];
  }
  to.packing = std::move(packing);
  return to;
}

/// One segment of a batch as a batch of its own, without its padding.
inline Problem segment_alone(const Problem& from, Index segment) {
  Problem to = from;
  const std::vector<Index> rows = real_rows(from.packing, segment);
  to.packing = make_packing({static_cast<Index>(rows.size())}, 1);
  to.hidden = to.grad_out = Tensor({static_cast<Index>(rows.size()), from.config.hidden});
  for (std::size_t r = 0; r < rows.size(); ++r) {
    std::copy_n(from.hidden.row(rows[r]), from.config.hidden, to.hidden.row(static_cast<Index>(r)));
    std::copy_n(from.grad_out.row(rows[r]), from.config.hidden, to.grad_out.row(static_cast<Index>(r)));
    to.packing.row_valid[r] = from.packing.row_valid[static_cast<std::size_t>(rows[r])];
  }
  return to;
}

inline void mask_row(Problem& problem, Index row) { problem.packing.row_valid[static_cast<std::size_t>(row)] = 0; }
inline bool is_valid(const Problem& problem, Index row) {
  return problem.packing.row_valid[static_cast<std::size_t>(row)] != 0;
}

/// factor * a, or a + factor * b, over all datasets chosen. Infinities stay.
inline Results scaled(const Results& a, double factor, const Among& among = everything) {
  Results sum;
  for_each_dataset(a, [&](DatasetId id, const Tensor& tensor) {
    Tensor to = tensor;
    if (among(id))
      for (double& value : to.values()) value *= factor;
    sum.set(id, std::move(to));
  });
  return sum;
}
inline Results plus(const Results& a, double factor, const Results& b, const Among& among = everything) {
  Results sum;
  for_each_dataset(a, [&](DatasetId id, const Tensor& tensor) {
    Tensor to = tensor;
    if (among(id))
      for (Index e = 0; e < to.size(); ++e) to[e] += factor * b.at(id)[e];
    sum.set(id, std::move(to));
  });
  return sum;
}

}  // namespace plumbline::tests
