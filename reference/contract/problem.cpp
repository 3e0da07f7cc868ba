#include "reference/contract/problem.hpp"

#include <cmath>
#include <string>

namespace plumbline::contract {
namespace {

Status check_shape(const std::string& where, const Tensor& tensor, const Shape& want) {
  if (tensor.shape() != want)
    return usage_error(where, "has shape " + to_string(tensor.shape()) + ", want " + to_string(want));
  return {};
}

Error non_finite(const std::string& where, double value, const std::string& place) {
  const char* name = std::isnan(value) ? "NaN" : value > 0 ? "Inf" : "-Inf";
  return Error{ErrorCode::kNonFinite,
               std::string("holds ") + name + " at " + place + "; only finite values are allowed there", where};
}

Status check_rows(const std::string& where, const Tensor& tensor, Index begin, Index end) {
  for (Index row = begin; row < end; ++row)
    for (Index c = 0; c < tensor.row_size(); ++c)
      if (const double value = tensor.row(row)[c]; !std::isfinite(value))
        return non_finite(where, value, "row " + std::to_string(row) + ", channel " + std::to_string(c));
  return {};
}

}  // namespace

Status validate(const Problem& problem) {
  const LayerConfig& config = problem.config;
  const Packing& packing = problem.packing;
  if (auto s = validate(config); !s) return s;
  if (auto s = validate(packing); !s) return s;
  const Shape rows{packing.tokens(), config.hidden};
  if (auto s = check_shape("inputs/hidden", problem.hidden, rows); !s) return s;
  if (auto s = check_shape("inputs/grad_out", problem.grad_out, rows); !s) return s;
  for (const WeightInfo& weight : kWeights) {
    if (!present(weight.presence, config)) continue;
    const std::string where = "weights/" + std::string(weight.name);
    const Tensor& tensor = problem.weight(weight.id);
    if (auto s = check_shape(where, tensor, shape_of(weight.axes, config, packing)); !s) return s;
    for (Index i = 0; i < tensor.size(); ++i)
      if (!(std::isfinite(tensor[i]) || (weight.may_be_infinite && std::isinf(tensor[i]))))
        return non_finite(where, tensor[i], "element " + std::to_string(i));
  }
  for (Index b = 0; b < packing.segments(); ++b)
    if (auto s =
            check_rows("inputs/hidden", problem.hidden, packing.offsets[b], packing.offsets[b] + packing.lengths[b]);
        !s)
      return s;
  for (Index row = 0; row < packing.tokens(); ++row)
    if (packing.row_valid[row])
      if (auto s = check_rows("inputs/grad_out", problem.grad_out, row, row + 1); !s) return s;
  return {};
}

}  // namespace plumbline::contract
