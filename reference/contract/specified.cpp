#include "reference/contract/specified.hpp"

#include "reference/contract/index_math.hpp"

namespace plumbline::contract {

namespace {

/// One flag a physical row, from its segment, its position and whether it has the query role.
template <typename Predicate>
std::vector<bool> token_rows(const Packing& packing, Predicate specified) {
  std::vector<bool> rows(static_cast<std::size_t>(packing.tokens()), false);
  for (Index b = 0; b < packing.segments(); ++b)
    for (Index row = packing.offsets[b]; row < packing.offsets[b + 1]; ++row)
      rows[row] = specified(b, row - packing.offsets[b], packing.row_valid[row] != 0);
  return rows;
}

std::vector<bool> entry_rows(const Packing& packing, Index ratio) {
  std::vector<bool> rows;
  for (Index b = 0; b < packing.segments(); ++b)
    for (Index g = 0; g < packing.groups(b, ratio); ++g) rows.push_back((g + 1) * ratio <= packing.lengths[b]);
  return rows;
}

}  // namespace

std::vector<bool> specified_rows(DatasetId id, const Problem& problem) {
  const Packing& packing = problem.packing;
  const Index ratio = problem.config.ratio;
  if (id == DatasetId::gradient(StageId::kKlRows))
    return token_rows(packing, [&](Index b, Index t, bool valid) {
      return valid && visible_entries(t, ratio, packing.groups(b, ratio)) > 0;
    });
  if (id.is_forward()) {
    switch (info(*id.stage()).role) {
      case Role::kQueryInput: return token_rows(packing, [](Index, Index, bool valid) { return valid; });
      case Role::kKey: return token_rows(packing, [&](Index b, Index t, bool) { return t < packing.lengths[b]; });
      case Role::kEntry: return entry_rows(packing, ratio);
      case Role::kQueryResult:
      case Role::kBatch: break;
    }
  }
  const Shape shape = shape_of(id.axes(), problem.config, packing);
  return std::vector<bool>(shape.empty() ? 1 : static_cast<std::size_t>(shape[0]), true);
}

}  // namespace plumbline::contract
