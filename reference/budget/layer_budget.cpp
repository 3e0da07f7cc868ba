#include "reference/budget/layer_budget.hpp"

#include <new>
#include <optional>

#include "reference/budget/attention.hpp"
#include "reference/budget/compressor.hpp"
#include "reference/budget/indexer.hpp"
#include "reference/budget/loss.hpp"
#include "reference/budget/output.hpp"
#include "reference/budget/qkv.hpp"
#include "reference/contract/index_math.hpp"
#include "reference/taps.hpp"

namespace plumbline::reference {

namespace budget {
namespace {

using contract::Tensor;

Estimate row_as_heads(const Estimate& rows, Index r, Index heads, Index dim) {
  Estimate e(heads, dim);
  e.value = map(rows.value.row(r).data(), heads, dim);
  e.error = map(rows.error.row(r).data(), heads, dim);
  return e;
}

void set_row(Estimate& rows, Index r, const Estimate& e) {
  map(rows.value.row(r).data(), e.rows(), e.cols()) = e.value;
  map(rows.error.row(r).data(), e.rows(), e.cols()) = e.error;
}

/// Columns of e at `places` of a row of `width`, zero elsewhere; and back.
Estimate scatter(const Estimate& e, const std::vector<Index>& places, Index width) {
  Estimate row(1, width);
  for (std::size_t k = 0; k < places.size(); ++k) {
    row.value(0, places[k]) = e.value(0, static_cast<Index>(k));
    row.error(0, places[k]) = e.error(0, static_cast<Index>(k));
  }
  return row;
}
Estimate gather_columns(const Estimate& row, const std::vector<Index>& places) {
  Estimate e(row.rows(), static_cast<Index>(places.size()));
  for (std::size_t k = 0; k < places.size(); ++k) {
    e.value.col(static_cast<Index>(k)) = row.value.col(places[k]);
    e.error.col(static_cast<Index>(k)) = row.error.col(places[k]);
  }
  return e;
}

Estimate rows_of_estimate(const Estimate& all, Index first, Index count) {
  Estimate e(count, all.cols());
  e.value = all.value.middleRows(first, count);
  e.error = all.error.middleRows(first, count);
  return e;
}

void append_picks(Estimate& keys, const Estimate& entries, Index first, const std::vector<Index>& picks) {
  const Index window = keys.rows(), n = static_cast<Index>(picks.size());
  keys.value.conservativeResize(window + n, Eigen::NoChange);
  keys.error.conservativeResize(window + n, Eigen::NoChange);
  for (Index k = 0; k < n; ++k) {
    keys.value.row(window + k) = entries.value.row(first + picks[static_cast<std::size_t>(k)]);
    keys.error.row(window + k) = entries.error.row(first + picks[static_cast<std::size_t>(k)]);
  }
}

/// The order of the layer's body (reference/layer.hpp), in estimates.
class LayerBudget {
 public:
  LayerBudget(Ledger& ledger, const contract::Request& request)
      : ledger_(ledger), request_(request), max_logits_(ledger.config().heads) {
    const contract::LayerConfig& c = ledger.config();
    const Index tokens = ledger.plan.tokens(), entries = ledger.plan.entries();
    keys_ = {Estimate(tokens, c.head_dim), Estimate(tokens, c.head_dim)};
    if (c.compressed()) compressor_.emplace(ledger, kMainCompressor, c.head_dim);
    if (c.indexer) index_compressor_.emplace(ledger, kIndexCompressor, c.index_dim);
    if (!request.wants_gradients()) return;
    hidden_ = Estimate(ledger.problem.packing.tokens(), c.hidden);
    hidden_squares_ = Matrix<double>::Zero(hidden_.rows(), hidden_.cols());
    dkv_ = Sum(tokens, c.head_dim);
    dcompressed_ = Sum(entries, c.head_dim);
    kv_terms_.assign(static_cast<std::size_t>(tokens), 0);
    compressed_terms_.assign(static_cast<std::size_t>(entries), 0);
    query_sums_.q_norm = Sum(1, c.q_lora_rank);
    if (request.wants(DatasetId::gradient(WeightId::kWqA))) query_sums_.wq_a = Sum(c.q_lora_rank, c.hidden);
    if (request.wants(DatasetId::gradient(WeightId::kWqB))) query_sums_.wq_b = Sum(c.heads * c.head_dim, c.q_lora_rank);
    key_sums_ = {Sum(c.head_dim, c.hidden), Sum(1, c.head_dim)};
    if (request.wants(DatasetId::gradient(WeightId::kWoB)))
      output_sums_.wo_b = Sum(c.hidden, c.o_groups * c.o_lora_rank);
    if (request.wants(DatasetId::gradient(WeightId::kWoA)))
      output_sums_.wo_a.assign(static_cast<std::size_t>(c.o_groups),
                               Sum(c.o_lora_rank, c.heads_per_group() * c.head_dim));
    sink_ = Sum(1, c.heads);
    if (!c.indexer) return;
    index_sums_ = {Sum(c.index_heads * c.index_dim, c.q_lora_rank), Sum(c.index_heads, c.hidden)};
    dindex_k_ = Sum(entries, c.index_dim);
    index_terms_.assign(static_cast<std::size_t>(entries), 0);
  }

  /// False when the caller cancelled the run.
  bool run() {
    const std::vector<TokenBlock> blocks = make_token_blocks(ledger_.plan);
    const std::vector<TokenBlock> query_blocks = make_token_blocks(ledger_.plan, ledger_.plan.queries);
    for (const TokenBlock& block : blocks) {
      if (request_.cancelled && request_.cancelled()) return false;
      const Estimate x = ledger_.gather(ledger_.problem.hidden, block.physical);
      key_budgets(ledger_, block, x, keys_);
      if (compressor_) compressor_->project_tokens(block, x);
      if (index_compressor_) index_compressor_->project_tokens(block, x);
    }
    if (compressor_) compressor_->finish();
    if (index_compressor_) {
      index_compressor_->finish();
      index_keys_ = index_compressor_->key;
      cast_operand(ledger_, index_keys_);
    }
    for (const TokenBlock& block : query_blocks) {
      if (request_.cancelled && request_.cancelled()) return false;
      queries(block);
    }
    finish_batch();
    if (!request_.wants_gradients()) return true;
    for (const TokenBlock& block : blocks) {
      if (request_.cancelled && request_.cancelled()) return false;
      key_gradients(block, &block == &blocks.front());
    }
    finish_gradients();
    return true;
  }

 private:
  bool backward() const { return request_.wants_gradients(); }

  void queries(const TokenBlock& block) {
    const contract::LayerConfig& c = ledger_.config();
    const QueryEstimates query = query_budgets(ledger_, block);
    IndexQueryEstimates index;
    Estimate index_operands;
    if (c.indexer) {
      index = index_query_budgets(ledger_, block, query.x, query.q_latent);
      index_operands = Estimate(block.count() * c.index_heads, c.index_dim);
      index_operands.value = map(index.q.value.data(), index_operands.rows(), c.index_dim);
      index_operands.error = map(index.q.error.data(), index_operands.rows(), c.index_dim);
      cast_operand(ledger_, index_operands);
    }
    OutputSums& output_sums = output_sums_;
    // attn_out's cotangent depends on grad_out and weights alone; the weights' gradients need o_latent, so it comes
    // twice.
    OutputSums none;
    Estimate dattn_out;
    if (backward()) dattn_out = output_gradient_budgets(ledger_, block, OutputEstimates{}, none);

    Estimate attn_out(block.count(), c.heads * c.head_dim), dq(backward() ? block.count() : 0, c.heads * c.head_dim);
    Estimate dindex_q(block.count(), c.index_heads * c.index_dim), dindex_w(block.count(), c.index_heads);
    for (Index r = 0; r < block.count(); ++r) {
      const QueryKeys seen = keys_of(block, r);
      Estimate keys = rows_of_estimate(keys_.kv, seen.window_first, seen.window_count);
      if (compressor_) append_picks(keys, compressor_->key, seen.entry_first, seen.picks);
      const Estimate q = row_as_heads(query.q, r, c.heads, c.head_dim);
      AttentionEstimate attention = attention_estimate(ledger_, q, keys);
      max_logits_.add(attention.z);
      Estimate lse = attention.lse;
      const std::vector<Index> row = {block.physical[static_cast<std::size_t>(r)]};
      ledger_.settle(DatasetId::forward(StageId::kAttnLse), row, lse);
      Estimate out(1, c.heads * c.head_dim);
      set_row(out, 0, attention.out);
      ledger_.settle(DatasetId::forward(StageId::kAttnOut), row, out);
      attn_out.value.row(r) = out.value;
      attn_out.error.row(r) = out.error;
      if (c.indexer) {
        const Estimate operands = rows_of_estimate(index_operands, r * c.index_heads, c.index_heads);
        Estimate w(1, c.index_heads);
        w.value = index.w.value.row(r);
        w.error = index.w.error.row(r);
        loss_row(row, seen, q, attention.z, operands, w, r, dindex_q, dindex_w);
      }
      if (!backward()) continue;
      const Estimate dout = row_as_heads(dattn_out, r, c.heads, c.head_dim);
      const AttentionGradientEstimate g = attention_gradient_estimate(
          ledger_, attention, lse, row_as_heads(attn_out, r, c.heads, c.head_dim), dout, keys);
      set_row(dq, r, g.dq);
      sink_.add(0, g.dsink.value.data(), g.dsink.error.data());
      add_key_gradients(seen, g, q, dout);
    }
    const OutputEstimates output = output_budgets(ledger_, block, attn_out);
    if (!backward()) return;
    sink_.set_terms(sink_.terms() + block.count());
    output_gradient_budgets(ledger_, block, output, output_sums);
    if (c.indexer)
      index_query_gradient_budgets(ledger_, block, query.x, query.q_latent, std::move(dindex_q), std::move(dindex_w),
                                   index_sums_);
    add_hidden(block, query_gradient_budgets(ledger_, block, query, std::move(dq), query_sums_));
  }

  QueryKeys keys_of(const TokenBlock& block, Index r) const {
    const contract::LayerConfig& c = ledger_.config();
    const RowPlan& plan = ledger_.plan;
    const Index t = block.position[static_cast<std::size_t>(r)];
    const Index b = plan.token_segment[static_cast<std::size_t>(block.compact[static_cast<std::size_t>(r)])];
    const Index begin = contract::window_begin(t, c.window);
    QueryKeys seen;
    seen.window_first = plan.first_token[static_cast<std::size_t>(b)] + begin;
    seen.window_count = t - begin + 1;
    seen.entry_first = plan.first_entry[static_cast<std::size_t>(b)];
    seen.visible =
        contract::visible_entries(t, c.ratio, plan.first_entry[static_cast<std::size_t>(b) + 1] - seen.entry_first);
    if (c.indexer) {
      const Tensor& topk = ledger_.given.at(DatasetId::forward(StageId::kTopk));
      const double* picks = topk.row(block.physical[static_cast<std::size_t>(r)]);
      for (Index k = 0; k < topk.row_size(); ++k)
        if (picks[k] >= 0 && picks[k] < static_cast<double>(seen.visible))
          seen.picks.push_back(static_cast<Index>(picks[k]));
      std::sort(seen.picks.begin(), seen.picks.end());
    } else {
      for (Index g = 0; g < seen.visible; ++g) seen.picks.push_back(g);
    }
    return seen;
  }

  void loss_row(const std::vector<Index>& row, const QueryKeys& seen, const Estimate& q, const Estimate& z,
                const Estimate& operands, const Estimate& w, Index r, Estimate& dindex_q, Estimate& dindex_w) {
    const contract::LayerConfig& c = ledger_.config();
    const Index columns = ledger_.plan.most_entries;
    const Estimate visible_keys = rows_of_estimate(index_keys_, seen.entry_first, seen.visible);
    const ScoreEstimate score = score_estimate(ledger_, operands, w, visible_keys);
    Estimate scores = score.scores;
    ledger_.settle(DatasetId::forward(StageId::kIndexScores), row, scores);

    std::vector<Index> candidates = seen.picks;
    Estimate candidate_logits(c.heads, 0);
    if (c.sparse_loss) {
      candidate_logits = z.columns(seen.window_count, seen.picked());
    } else {
      candidates.resize(static_cast<std::size_t>(seen.visible));
      for (Index g = 0; g < seen.visible; ++g) candidates[static_cast<std::size_t>(g)] = g;
      if (compressor_)
        candidate_logits =
            logit_estimate(ledger_, q, rows_of_estimate(compressor_->key, seen.entry_first, seen.visible));
    }
    if (candidates.empty()) return;
    const Estimate made = teacher_estimate(ledger_, z.columns(0, seen.window_count), candidate_logits);
    const bool has_mass = made.value.sum() > 0;
    Estimate teacher = scatter(made, candidates, columns);
    ledger_.settle(DatasetId::forward(StageId::kTeacher), row, teacher);
    const double divisor = c.per_token_loss ? 1 : static_cast<double>(std::max<Index>(ledger_.plan.valid_rows, 1));
    const double weight = c.loss_coeff / divisor * c.loss_scale;
    const Estimate known = gather_columns(scores, candidates);
    PredictionEstimate p = prediction_estimate(ledger_, known, gather_columns(teacher, candidates), weight, has_mass);
    Estimate predict = scatter(p.predict, candidates, columns);
    ledger_.settle(DatasetId::forward(StageId::kPredict), row, predict);
    ledger_.settle(DatasetId::forward(StageId::kKlRows), row, p.kl);
    kl_.value += p.kl.value(0, 0);
    kl_.l1 += std::abs(p.kl.value(0, 0));
    kl_.squares += p.kl.value(0, 0) * p.kl.value(0, 0);
    kl_.error1 += p.kl.error(0, 0);
    kl_.errors += p.kl.error(0, 0) * p.kl.error(0, 0);
    ++kl_.rows;
    if (!backward()) return;
    Estimate dscores = scatter(p.dscores, candidates, columns);
    ledger_.settle(DatasetId::gradient(StageId::kIndexScores), row, dscores);
    const Estimate keys = gather_rows(visible_keys, candidates);
    const ScoreGradientEstimate g = score_gradient_estimate(ledger_, gather_columns(score.products, candidates), w,
                                                            keys, gather_columns(dscores, candidates));
    map(dindex_q.value.row(r).data(), c.index_heads, c.index_dim) = g.dq.value;
    map(dindex_q.error.row(r).data(), c.index_heads, c.index_dim) = g.dq.error;
    dindex_w.value.row(r) = g.dw.value;
    dindex_w.error.row(r) = g.dw.error;
    for (std::size_t k = 0; k < candidates.size(); ++k) {
      const Index entry = seen.entry_first + candidates[k];
      dindex_k_.add_outer_at(entry, 0, g.dproducts.columns(static_cast<Index>(k), 1), operands);
      index_terms_[static_cast<std::size_t>(entry)] += c.index_heads;
    }
  }

  static Estimate gather_rows(const Estimate& all, const std::vector<Index>& places) {
    Estimate e(static_cast<Index>(places.size()), all.cols());
    for (std::size_t k = 0; k < places.size(); ++k) {
      e.value.row(static_cast<Index>(k)) = all.value.row(places[k]);
      e.error.row(static_cast<Index>(k)) = all.error.row(places[k]);
    }
    return e;
  }

  void add_key_gradients(const QueryKeys& seen, const AttentionGradientEstimate& g, const Estimate& q,
                         const Estimate& dout) {
    const Index heads = q.rows();
    dkv_.add_outer_at(seen.window_first, 0, g.dz.columns(0, seen.window_count), q);
    dkv_.add_outer_at(seen.window_first, 0, g.p.columns(0, seen.window_count), dout);
    for (Index k = 0; k < seen.window_count; ++k)
      kv_terms_[static_cast<std::size_t>(seen.window_first + k)] += 2 * heads;
    for (Index k = 0; k < seen.picked(); ++k) {
      const Index entry = seen.entry_first + seen.picks[static_cast<std::size_t>(k)];
      dcompressed_.add_outer_at(entry, 0, g.dz.columns(seen.window_count + k, 1), q);
      dcompressed_.add_outer_at(entry, 0, g.p.columns(seen.window_count + k, 1), dout);
      compressed_terms_[static_cast<std::size_t>(entry)] += 2 * heads;
    }
  }

  /// One path's part; the sum so far may be rounded too, in any order of the paths.
  void add_hidden(const TokenBlock& block, const Estimate& dx) {
    const double u = ledger_.arithmetic.compute, cast = kCast * ledger_.cast(CastPoint::kHiddenPartial).u;
    for (Index r = 0; r < dx.rows(); ++r) {
      const Index row = block.physical[static_cast<std::size_t>(r)];
      hidden_.value.row(row) += dx.value.row(r);
      hidden_squares_.row(row) += dx.value.row(r).cwiseAbs2();
      hidden_.error.row(row) += dx.error.row(r) + (cast + 3 * u) * hidden_.value.row(row).cwiseAbs().cwiseMax(
                                                                       hidden_squares_.row(row).cwiseSqrt());
    }
  }

  void finish_batch() {
    const contract::LayerConfig& c = ledger_.config();
    ledger_.settle(DatasetId::forward(StageId::kMaxLogits), {0}, max_logits_.estimate());
    if (!c.indexer) return;
    const double u = ledger_.arithmetic.compute;
    const double divisor = c.per_token_loss ? 1 : static_cast<double>(std::max<Index>(ledger_.plan.valid_rows, 1));
    const double weight = c.loss_coeff / divisor;
    Estimate loss(1, 1);
    loss.value(0, 0) = weight * kl_.value;
    loss.error(0, 0) =
        std::abs(weight) * (accumulation(u, kl_.rows, kl_.value, kl_.l1, std::sqrt(kl_.squares), kl_.l1) +
                            std::min(kl_.error1, kSpread * std::sqrt(kl_.errors)) + 4 * u * std::abs(kl_.value));
    ledger_.settle(DatasetId::forward(StageId::kIndexerLoss), {0}, loss);
    if (!backward()) return;
    for (const Index query : ledger_.plan.queries) {
      Estimate d(1, 1);
      d.value(0, 0) = weight * c.loss_scale;
      d.error(0, 0) = 4 * u * std::abs(d.value(0, 0));
      ledger_.settle(DatasetId::gradient(StageId::kKlRows), {ledger_.plan.token_rows[static_cast<std::size_t>(query)]},
                     d);
    }
  }

  Estimate finish_rows(const Sum& sum, const std::vector<Index>& terms, Index first, Index count, Index cols) const {
    Estimate e(count, cols);
    for (Index r = 0; r < count; ++r) {
      const Estimate row = sum.finish_row(first + r, ledger_.arithmetic.sum, ledger_.arithmetic.tiny,
                                          terms[static_cast<std::size_t>(first + r)]);
      e.value.row(r) = row.value;
      e.error.row(r) = row.error;
    }
    return e;
  }

  void key_gradients(const TokenBlock& block, bool first_block) {
    const contract::LayerConfig& c = ledger_.config();
    const Index entries = ledger_.plan.entries();
    if (first_block) {
      if (compressor_)
        compressor_->finish_gradients(finish_rows(dcompressed_, compressed_terms_, 0, entries, c.head_dim));
      if (index_compressor_)
        index_compressor_->finish_gradients(finish_rows(dindex_k_, index_terms_, 0, entries, c.index_dim));
    }
    const Estimate x = ledger_.gather(ledger_.problem.hidden, block.physical);
    add_hidden(block, key_gradient_budgets(
                          ledger_, block, x, keys_,
                          finish_rows(dkv_, kv_terms_, block.compact.front(), block.count(), c.head_dim), key_sums_));
    if (compressor_)
      for (const Estimate& dx : compressor_->project_gradients(block, x)) add_hidden(block, dx);
    if (index_compressor_) index_compressor_->project_gradients(block, x);
  }

  void settle_weight(WeightId id, const Sum& sum, Index first_row = 0) {
    if (sum.empty()) return;
    Estimate e = sum.finish(ledger_.arithmetic.sum, ledger_.arithmetic.tiny);
    const contract::Shape& shape = ledger_.problem.weight(id).shape();
    std::vector<Index> rows;
    if (shape.size() == 1) {
      rows = {0};
    } else {
      for (Index r = 0; r < e.rows(); ++r) rows.push_back(first_row + r);
    }
    ledger_.settle(DatasetId::gradient(id), rows, e);
  }

  void finish_gradients() {
    const contract::LayerConfig& c = ledger_.config();
    std::vector<Index> rows = ledger_.plan.token_rows;
    Estimate hidden(static_cast<Index>(rows.size()), c.hidden);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      hidden.value.row(static_cast<Index>(r)) = hidden_.value.row(rows[r]);
      hidden.error.row(static_cast<Index>(r)) = hidden_.error.row(rows[r]);
    }
    ledger_.settle(DatasetId::hidden_gradient(), rows, hidden);
    settle_weight(WeightId::kWqA, query_sums_.wq_a);
    settle_weight(WeightId::kQNorm, query_sums_.q_norm);
    settle_weight(WeightId::kWqB, query_sums_.wq_b);
    settle_weight(WeightId::kWkv, key_sums_.wkv);
    settle_weight(WeightId::kKvNorm, key_sums_.kv_norm);
    settle_weight(WeightId::kAttnSink, sink_);
    settle_weight(WeightId::kWoB, output_sums_.wo_b);
    for (std::size_t j = 0; j < output_sums_.wo_a.size(); ++j)
      settle_weight(WeightId::kWoA, output_sums_.wo_a[j], static_cast<Index>(j) * c.o_lora_rank);
    for (const std::optional<CompressorBudget>* compressor : {&compressor_, &index_compressor_})
      if (*compressor)
        for (const auto& [id, sum] : (*compressor)->sums()) settle_weight(id, *sum);
    if (!c.indexer) return;
    settle_weight(WeightId::kIndexerWqB, index_sums_.wq_b);
    settle_weight(WeightId::kIndexerWeightsProj, index_sums_.weights_proj);
  }

  struct KlSum {
    double value = 0, l1 = 0, squares = 0, error1 = 0, errors = 0;
    Index rows = 0;
  };

  Ledger& ledger_;
  const contract::Request& request_;
  KeyEstimates keys_;
  std::optional<CompressorBudget> compressor_, index_compressor_;
  Estimate index_keys_;
  MaxLogits max_logits_;
  KlSum kl_;
  Estimate hidden_;
  Matrix<double> hidden_squares_;  // of the parts, summed
  Sum dkv_, dcompressed_, dindex_k_, sink_;
  std::vector<Index> kv_terms_, compressed_terms_, index_terms_;
  QuerySums query_sums_;
  KeySums key_sums_;
  OutputSums output_sums_;
  IndexSums index_sums_;
};

}  // namespace
}  // namespace budget

contract::Result<Budgets> run_budgets(const contract::Problem& problem, const contract::PrecisionProfile& profile,
                                      const contract::Results& given, const contract::DatasetSet& exact,
                                      const contract::Request& request) {
  using contract::DatasetId, contract::StageId;
  if (auto status = contract::validate(problem); !status) return status.error();
  if (problem.config.indexer && !given.has(DatasetId::forward(StageId::kTopk)))
    return contract::usage_error("given", "budgets of a layer with an indexer need its selections (forward/topk)");
  try {
    const RowPlan plan =
        make_row_plan(problem.packing, problem.config, RowSelection{{0, problem.packing.tokens()}, request.query_rows});
    const budget::Arithmetic arithmetic(profile);
    budget::Ledger ledger{
        problem, profile, given, exact, plan, arithmetic, budget::Rotation(problem.config, arithmetic), {}, {}};
    ledger.budgets = std::move(Taps<double>(request, problem.config, problem.packing).results());
    for (std::size_t i = 0; i < DatasetId::kCount; ++i)
      if (contract::Tensor* tensor = ledger.budgets.find(DatasetId::from_index(i)))
        std::fill(tensor->values().begin(), tensor->values().end(), 0.0);
    ledger.values = std::move(Taps<double>(request, problem.config, problem.packing).results());
    budget::LayerBudget layer(ledger, request);
    if (!layer.run())
      return contract::Error{contract::ErrorCode::kInterrupted, "stopped before the budgets were complete", "budgets"};
    return Budgets{std::move(ledger.budgets), std::move(ledger.values)};
  } catch (const std::bad_alloc&) {
    return contract::Error{contract::ErrorCode::kMemory,
                           "ran out of memory; shorten the case or choose a smaller model", "budgets"};
  }
}

}  // namespace plumbline::reference
