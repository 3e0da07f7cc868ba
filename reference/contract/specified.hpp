#pragma once
#include <vector>

#include "reference/contract/problem.hpp"

namespace plumbline::contract {

/// Which rows (indices of axis 0) of a dataset the contract specifies; a scalar counts as one row.
///
/// | dataset | specified on |
/// |---|---|
/// | forward, what a query's own row gives (q_down .. q, index_q, index_w) | rows with the query role |
/// | forward, what a query produces (out, topk, kl_rows, ...) | all rows: without the query role a fixed value |
/// | forward, keys (kv_proj, kv) | real tokens, masked or not |
/// | forward, entries (compressed_*, index_pooled, index_k) | entries whose group is all real tokens |
/// | gradient of kl_rows | rows with the query role that see an entry |
/// | every other gradient | all rows: exactly zero where nothing contributes |
std::vector<bool> specified_rows(DatasetId id, const Problem& problem);

}  // namespace plumbline::contract
