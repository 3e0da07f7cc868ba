#pragma once
#include <algorithm>
#include <new>
#include <optional>
#include <string>

#include "reference/layer.hpp"

namespace plumbline::reference {

/// One rank's part of a layer: heads in whole output groups (tensor parallel), rows (context parallel), and the other
/// ranks behind the communicator. The problem is the whole one on every rank.
///
/// Results have full shapes; what belongs to other ranks stays at its fill value. With `rows`, the gradients of
/// weights, hidden, kv and kv_proj are this rank's contributions: adding up the ranks gives the whole.
template <typename Scalar>
struct Shard {
  HeadRange heads;                                         ///< count 0: all heads
  std::optional<TokenRange> rows;                          ///< absent: all rows
  contract::Communicator<Scalar>* communicator = nullptr;  ///< null: identity
};

/// Fixes what Eigen would otherwise read from the machine: its products' blocking, hence their summation order.
inline void fix_product_blocking() { Eigen::setCpuCacheSizes(32 * 1024, 1024 * 1024, 16 * 1024 * 1024); }

/// Runs the layer on a problem with the given arithmetic. Checks the problem first (`contract::validate`); the bits of
/// the result depend on the problem, the policy and the instruction set alone, not on threads, padding or taps.
/// Errors: those of validate; kUsage for a query row that is not valid; kInterrupted; kMemory when memory runs out.
template <typename Policy>
contract::Result<contract::BasicResults<typename Policy::Scalar>> run_layer(
    const contract::Problem& problem, const contract::Request& request, const Policy& policy,
    const Shard<typename Policy::Scalar>& shard = {}) {
  using Scalar = typename Policy::Scalar;
  using contract::Error, contract::ErrorCode;
  if (auto status = contract::validate(problem); !status) return status.error();
  const Index tokens = problem.packing.tokens();
  RowSelection selection{shard.rows.value_or(TokenRange{0, tokens}), request.query_rows};
  if (selection.range.begin < 0 || selection.range.begin > selection.range.end || selection.range.end > tokens)
    return contract::usage_error("rows", "a rank owns rows begin <= end within 0.." + std::to_string(tokens) +
                                             ", got " + std::to_string(selection.range.begin) + ".." +
                                             std::to_string(selection.range.end));
  std::sort(selection.query_rows.begin(), selection.query_rows.end());
  for (const Index row : selection.query_rows)
    if (row < 0 || row >= tokens || !problem.packing.row_valid[row])
      return contract::usage_error("query_rows",
                                   "row " + std::to_string(row) + " is not a valid query row of this batch");
  const contract::LayerConfig& config = problem.config;
  const HeadRange heads = shard.heads.count > 0 ? shard.heads : HeadRange{0, config.heads};
  if (heads.begin % config.heads_per_group() != 0 || heads.count % config.heads_per_group() != 0 || heads.begin < 0 ||
      heads.begin + heads.count > config.heads)
    return contract::usage_error(
        "heads", "a rank owns whole output groups of " + std::to_string(config.heads_per_group()) + " heads, got " +
                     std::to_string(heads.count) + " heads from head " + std::to_string(heads.begin));
  try {
    fix_product_blocking();
    const RowPlan plan = make_row_plan(problem.packing, config, selection);
    const RopeTable<Scalar> rope = policy.make_rope(config, plan.longest_segment);
    const Numbers<Scalar> numbers(problem);
    Taps<Scalar> taps(request, config, problem.packing);
    contract::IdentityCommunicator<Scalar> alone;
    const Context<Policy> ctx{problem,
                              policy,
                              plan,
                              rope,
                              numbers,
                              taps,
                              shard.communicator ? *shard.communicator : alone,
                              heads,
                              request.wants_gradients()};
    LayerBody<Policy> body(ctx, request);
    if (!body.run()) return Error{ErrorCode::kInterrupted, "stopped before the layer was complete", "reference"};
    return std::move(taps.results());
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::kMemory, "ran out of memory; shorten the case or choose a smaller model", "reference"};
  }
}

}  // namespace plumbline::reference
