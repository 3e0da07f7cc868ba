#pragma once
#include <optional>
#include <utility>

#include "reference/attention.hpp"
#include "reference/compressor.hpp"
#include "reference/indexer.hpp"
#include "reference/loss.hpp"
#include "reference/output.hpp"
#include "reference/qkv.hpp"

// The whole layer, forward and backward, in one pass over blocks of queries.
//
// The objective sum(out * grad_out) + loss_scale * indexer_loss is linear in `out`, and grad_out is given: so a block
// of queries can go forward and at once backward, and nothing of the query path (by far the largest tensors: q,
// attn_out and their cotangents) is ever held for more than one block. Only what all queries share is kept for the
// whole batch: keys, compressed entries, indexer keys, and the cotangents that queries add to them. Memory is linear in
// the number of tokens.
//
//   1. keys:     every real token     -> kv, compressor projections;  every group -> compressed_kv, index_k
//   2. queries:  block by block       -> q, scores, picks, attention, loss, out; then backward to wq_a, adding to
//                                        dkv, dcompressed_kv, dindex_k in query order
//   3. keys backward: entries, then token blocks -> compressor, wkv and hidden
namespace plumbline::reference {

template <typename Policy>
class LayerBody {
 public:
  using Scalar = typename Policy::Scalar;

  LayerBody(const Context<Policy>& ctx, const contract::Request& request) : ctx_(ctx), request_(request) {
    const contract::LayerConfig& c = ctx.config();
    const Index rows = round_up_rows(ctx.plan.tokens());
    keys_.kv_proj.setZero(rows, c.head_dim);
    keys_.kv.setZero(rows, c.head_dim);
    compressed_kv_.resize(0, c.head_dim);
    if (c.compressed()) compressor_.emplace(ctx, kMainCompressor, c.head_dim);
    if (c.indexer) index_compressor_.emplace(ctx, kIndexCompressor, c.index_dim);
    max_logits_ = Vector<Scalar>::Constant(ctx.heads.count, -std::numeric_limits<Scalar>::infinity());
    if (!ctx.backward) return;
    dkv_.setZero(rows, c.head_dim);
    dcompressed_kv_.setZero(ctx.plan.entries(), c.head_dim);
    if (c.indexer) dindex_k_.setZero(ctx.plan.entries(), c.index_dim);
  }

  /// False when the caller cancelled the run.
  bool run() {
    const std::vector<TokenBlock> token_blocks = make_token_blocks(ctx_.plan);
    const std::vector<TokenBlock> query_blocks = make_token_blocks(ctx_.plan, ctx_.plan.queries);
    steps_ = 2 * token_blocks.size() + 8 * query_blocks.size();
    for (const TokenBlock& block : token_blocks) {
      if (!advance(1)) return false;
      ctx_.gather(ctx_.problem.hidden, block, x_);
      key_forward(ctx_, block, x_, keys_);
      if (compressor_) compressor_->project_tokens(block, x_);
      if (index_compressor_) index_compressor_->project_tokens(block, x_);
    }
    if (compressor_) compressor_->finish();
    if (index_compressor_) index_compressor_->finish();
    for (const TokenBlock& block : query_blocks) {
      if (!advance(8)) return false;
      run_queries(block);
    }
    finish_batch_results();
    return !ctx_.backward || run_keys_backward(token_blocks);
  }

 private:
  /// Queries in a tile: few enough that their logits stay small, enough that threads have work.
  static constexpr Index kQueryTile = 48;

  const Matrix<Scalar>& compressed_kv() const { return compressor_ ? compressor_->key : compressed_kv_; }

  bool advance(std::size_t steps) {
    if (request_.cancelled && request_.cancelled()) return false;
    if (request_.progress) request_.progress(double(step_) / double(steps_));
    step_ += steps;
    return true;
  }

  void run_queries(const TokenBlock& block) {
    const contract::LayerConfig& c = ctx_.config();
    query_forward(ctx_, block, query_);
    const Index rows = query_.x.rows();
    if (c.indexer) {
      index_query_forward(ctx_, block, query_.x, query_.q_latent, index_);
      index_.dq.setZero(rows, index_.q.cols());
      index_.dw.setZero(rows, index_.w.cols());
    }
    if (ctx_.backward) output_cotangents(ctx_, block, cotangents_);
    attn_out_.setZero(rows, query_.q.cols());
    dq_.setZero(ctx_.backward ? rows : 0, query_.q.cols());
    for (Index first = 0; first < block.count(); first += kQueryTile)
      run_tile(block, first, std::min(kQueryTile, block.count() - first));

    output_forward(ctx_, block, attn_out_, output_);
    if (!ctx_.backward) return;
    output_weight_gradients(ctx_, output_, cotangents_);
    if (c.indexer) index_query_backward(ctx_, block, query_.x, query_.q_latent, index_);
    dx_.setZero(rows, c.hidden);
    query_backward(ctx_, block, query_, dq_, dx_);
    ctx_.taps.add(DatasetId::hidden_gradient(), block.physical, all(std::as_const(dx_)));
  }

  void run_tile(const TokenBlock& block, Index first, Index count) {
    prepare_tile(block, first, count);
    if (ctx_.config().indexer) index_scores(ctx_, index_, index_compressor_->key, tile_);
    select_entries(ctx_, tile_);
    for (const QueryKeys& keys : tile_.keys) tile_.key_stride = std::max(tile_.key_stride, keys.keys());
    const AttentionKeys<Scalar> keys{keys_.kv, compressed_kv()};
    attention_forward(ctx_, query_.q, keys, tile_, attn_out_, max_logits_);
    if (ctx_.config().indexer) run_tile_loss(keys);
    if (!ctx_.backward) return;
    attention_backward(ctx_, attn_out_, cotangents_.dattn_out, keys, tile_, dq_);
    attention_key_backward(ctx_, query_.q, cotangents_.dattn_out, tile_, dkv_, dcompressed_kv_);
    if (Scalar* dsink = ctx_.taps.weight_gradient(WeightId::kAttnSink))
      for (Index i = 0; i < count; ++i) map(dsink + ctx_.heads.begin, 1, ctx_.heads.count) += tile_.dsink.row(i);
  }

  void run_tile_loss(const AttentionKeys<Scalar>& keys) {
    const std::vector<std::vector<Index>> candidates = loss_candidates(ctx_, tile_);
    for (const auto& c : candidates)
      tile_.candidate_stride = std::max(tile_.candidate_stride, static_cast<Index>(c.size()));
    indexer_loss(ctx_, query_.q, keys, candidates, tile_, kl_sum_);
    if (!ctx_.backward) return;
    ctx_.emit_gradient(StageId::kIndexScores, tile_.rows, all(tile_.dscores));
    index_scores_vjp(ctx_, index_, index_compressor_->key, candidates, tile_, dindex_k_);
  }

  void prepare_tile(const TokenBlock& block, Index first, Index count) {
    const contract::LayerConfig& c = ctx_.config();
    const RowPlan& plan = ctx_.plan;
    tile_.first = first;
    tile_.count = count;
    tile_.head_count = ctx_.heads.count;
    tile_.key_stride = tile_.candidate_stride = 0;
    tile_.rows.assign(block.physical.begin() + first, block.physical.begin() + first + count);
    tile_.keys.resize(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i) {
      const Index t = block.position[first + i], b = plan.token_segment[block.compact[first + i]];
      QueryKeys& keys = tile_.keys[i];
      const Index begin = contract::window_begin(t, c.window);
      keys.window_first = plan.first_token[b] + begin;
      keys.window_count = t - begin + 1;
      keys.entry_first = plan.first_entry[b];
      keys.visible = contract::visible_entries(t, c.ratio, plan.first_entry[b + 1] - plan.first_entry[b]);
    }
  }

  void finish_batch_results() {
    ctx_.communicator.all_reduce_max(contract::Collective::kCMaxLogits, max_logits_.data(), max_logits_.size());
    ctx_.emit(StageId::kMaxLogits, {0}, map(max_logits_.data(), 1, max_logits_.size()), ctx_.heads.begin);
    if (!ctx_.config().indexer) return;
    ctx_.communicator.all_reduce_sum(contract::Collective::kCKlSum, &kl_sum_, 1);
    Scalar loss = loss_row_weight(ctx_) * kl_sum_;
    ctx_.emit(StageId::kIndexerLoss, {0}, map(&loss, 1, 1));
    if (!ctx_.backward) return;
    for (const Index r : ctx_.plan.queries) {
      Scalar weight = loss_row_weight(ctx_) * Scalar(ctx_.config().loss_scale);
      ctx_.emit_gradient(StageId::kKlRows, {ctx_.plan.token_rows[r]}, map(&weight, 1, 1));
    }
  }

  bool run_keys_backward(const std::vector<TokenBlock>& token_blocks) {
    ctx_.communicator.all_reduce_sum(contract::Collective::kB2Kv, dkv_.data(), dkv_.size());
    ctx_.communicator.all_reduce_sum(contract::Collective::kB3CompressedKv, dcompressed_kv_.data(),
                                     dcompressed_kv_.size());
    if (compressor_) compressor_->finish_vjp(dcompressed_kv_);
    if (index_compressor_) index_compressor_->finish_vjp(dindex_k_);
    for (const TokenBlock& block : token_blocks) {
      if (!advance(1)) return false;
      ctx_.gather(ctx_.problem.hidden, block, x_);
      dx_.setZero(x_.rows(), x_.cols());
      key_backward(ctx_, block, x_, keys_, dkv_, dx_);
      if (compressor_) compressor_->project_tokens_vjp(block, x_, dx_);
      if (index_compressor_) index_compressor_->project_tokens_vjp(block, x_, dx_);
      ctx_.taps.add(DatasetId::hidden_gradient(), block.physical, all(std::as_const(dx_)));
    }
    return true;
  }

  const Context<Policy>& ctx_;
  const contract::Request& request_;
  std::size_t step_ = 0, steps_ = 1;

  // For the whole batch.
  KeyActivations<Scalar> keys_;
  Matrix<Scalar> compressed_kv_;  // stays empty: stands in where the layer does not compress
  std::optional<Compressor<Policy>> compressor_, index_compressor_;
  Matrix<Scalar> dkv_, dcompressed_kv_, dindex_k_;
  Vector<Scalar> max_logits_;
  Scalar kl_sum_ = 0;

  // For one block or tile of queries; kept to reuse their memory.
  Matrix<Scalar> x_, dx_, attn_out_, dq_;
  QueryActivations<Scalar> query_;
  IndexQueries<Scalar> index_;
  OutputActivations<Scalar> output_;
  OutputCotangents<Scalar> cotangents_;
  QueryTile<Scalar> tile_;
};

}  // namespace plumbline::reference
