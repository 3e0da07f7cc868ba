#include "golden/check.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "golden/generated.hpp"
#include "golden/message.hpp"
#include "golden/sketch_values.hpp"
#include "reference/contract/specified.hpp"

namespace plumbline::golden {
namespace {

using contract::Axis;
using contract::DatasetId;
using contract::Error;
using contract::ErrorCode;
using contract::file_error;
using contract::Index;
using contract::Packing;
using contract::Problem;
using contract::StageId;
using contract::Status;
using contract::Tensor;

/// Entries that the query in this physical row sees; 0 without the query role.
Index visible_to(const Problem& problem, Index row) {
  const Packing& packing = problem.packing;
  if (packing.row_valid[static_cast<std::size_t>(row)] == 0) return 0;
  const Index b = packing.segment_of(row);
  const Index ratio = problem.config.ratio;
  return contract::visible_entries(row - packing.offsets[static_cast<std::size_t>(b)], ratio, packing.groups(b, ratio));
}

bool legal_infinity(DatasetId id, const Problem& problem, Index row, Index column, double value) {
  if (id == DatasetId::forward(StageId::kIndexScores)) return value < 0 && column >= visible_to(problem, row);
  if (id == DatasetId::forward(StageId::kMaxLogits)) return value < 0;
  return id == DatasetId::forward(StageId::kAttnLse);
}

Status check_finite(DatasetId id, const Tensor& tensor, const Problem& problem) {
  const bool scalar = tensor.rank() == 0;
  const Index rows = scalar ? 1 : tensor.shape()[0];
  const Index columns = tensor.row_size();
  const std::vector<bool> specified = contract::specified_rows(id, problem);
  for (Index row = 0; row < rows; ++row) {
    const double* values = tensor.row(row);
    for (Index column = 0; column < columns; ++column) {
      const double value = values[column];
      if (std::isfinite(value)) continue;
      if (std::isinf(value) && legal_infinity(id, problem, row, column, value)) continue;
      if (!specified[static_cast<std::size_t>(row)]) break;
      return Error{
          ErrorCode::kNonFinite,
          "holds " + number_text(value) + " at " + place_text(row, column, scalar) + "; a golden file may not, there",
          id.path()};
    }
  }
  return {};
}

/// A selection as text; tensors hold it as a double.
std::string index_text(double pick) {
  return std::abs(pick) < 0x1p53 && pick == std::floor(pick) ? std::to_string(static_cast<Index>(pick))
                                                             : std::to_string(pick);
}

Status check_selection(const std::string& where, const Tensor& topk, const Problem& problem) {
  const Index picks = topk.row_size();
  if (topk.empty()) return {};
  std::vector<Index> row_picks;
  for (Index row = 0; row < topk.shape()[0]; ++row) {
    const Index visible = visible_to(problem, row);
    row_picks.clear();
    for (Index k = 0; k < picks; ++k) {
      const double pick = topk.row(row)[k];
      if (pick == -1) continue;
      if (!(pick >= 0 && pick < static_cast<double>(visible) && pick == std::floor(pick)))
        return file_error(where, "row " + std::to_string(row) + " selects entry " + index_text(pick) + ", allowed: -1" +
                                     (visible > 0 ? " or 0.." + std::to_string(visible - 1) + " (the entries it sees)"
                                                  : " (it sees no entry)"));
      row_picks.push_back(static_cast<Index>(pick));
    }
    std::sort(row_picks.begin(), row_picks.end());
    if (const auto twice = std::adjacent_find(row_picks.begin(), row_picks.end()); twice != row_picks.end())
      return file_error(where, "row " + std::to_string(row) + " selects entry " + std::to_string(*twice) + " twice");
  }
  return {};
}

Status check_result(DatasetId id, const Tensor& tensor, const Problem& problem) {
  const std::string where = id.path();
  if (!id.exists(problem.config)) return file_error(where, "a layer of this kind has no such dataset");
  const contract::Shape want = contract::shape_of(id.axes(), problem.config, problem.packing);
  if (tensor.shape() != want)
    return file_error(where,
                      "has shape " + contract::to_string(tensor.shape()) + ", need " + contract::to_string(want));
  if (id == DatasetId::forward(StageId::kTopk)) return check_selection(where, tensor, problem);
  return check_finite(id, tensor, problem);
}

Status check_sketch(DatasetId id, const contract::Sketch& sketch, const Problem& problem) {
  const std::string where = "sketch/" + id.path();
  if (!id.exists(problem.config)) return file_error(where, "a layer of this kind has no such dataset");
  const std::vector<double> values =
      to_values(sketch, contract::sketch_shape(contract::shape_of(id.axes(), problem.config, problem.packing)));
  if (values.empty()) return file_error(where, "has another shape than its dataset's");
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return Error{ErrorCode::kNonFinite,
                   "holds " + number_text(values[i]) + " at element " + std::to_string(i) + "; a sketch may not",
                   where};
  return {};
}

/// Whether the file holds what its contents say, and nothing else.
Status check_contents(const GoldenFile& golden) {
  const auto misfit = [&](const char* what) {
    return contract::usage_error("contents", "'" + std::string(to_string(golden.contents)) + "' has " + what);
  };
  const bool results = golden.results.available().any(), any = golden.available().any();
  switch (golden.contents) {
    case Contents::kStored:
    case Contents::kFull:
      if (golden.results.available() != golden.available()) return misfit("no sketches");
      break;
    case Contents::kSketch:
      if (results) return misfit("no results");
      break;
    case Contents::kSeed:
      if (any) return misfit("no results and no sketches");
      break;
  }
  if (golden.contents != Contents::kStored && golden.fingerprints.empty()) return misfit("fingerprints");
  return {};
}

}  // namespace

Status check(const GoldenFile& golden) {
  if (auto s = check_contents(golden); !s) return s;
  if (golden.contents == Contents::kStored) {
    if (auto s = validate(golden.problem); !s) return s;
  } else if (auto s = check_generator(golden); !s) {
    return s;
  }
  for (std::size_t i = 0; i < DatasetId::kCount; ++i) {
    const DatasetId id = DatasetId::from_index(i);
    const Tensor* tensor = golden.results.find(id);
    if (tensor != nullptr)
      if (auto s = check_result(id, *tensor, golden.problem); !s) return s;
    if (golden.sketches[i])
      if (auto s = check_sketch(id, *golden.sketches[i], golden.problem); !s) return s;
  }
  return {};
}

}  // namespace plumbline::golden
