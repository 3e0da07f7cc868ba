#include <string_view>
#include <utility>

#include "compare/judge.hpp"

namespace plumbline::compare {

using contract::DatasetId;

namespace {

/// Gradients in the order in which they are computed, with the stages and gradients ("d" before a stage) that they
/// read.
constexpr std::pair<std::string_view, std::string_view> kGradientOrder[] = {
    {"grad/forward/out", ""},
    {"grad/forward/o_latent", "dout"},
    {"grad/weights/wo_b", "dout o_latent"},
    {"grad/forward/attn_out_derotated", "do_latent"},
    {"grad/weights/wo_a", "do_latent attn_out_derotated"},
    {"grad/forward/attn_out", "dattn_out_derotated"},
    {"grad/forward/kl_rows", ""},
    {"grad/forward/index_scores", "teacher index_scores topk"},
    {"grad/forward/index_w", "dindex_scores index_q index_k"},
    {"grad/weights/indexer.weights_proj", "dindex_w"},
    {"grad/forward/index_q", "dindex_scores index_q index_k index_w"},
    {"grad/weights/indexer.wq_b", "dindex_q q_latent"},
    {"grad/forward/q", "dattn_out attn_out attn_lse q kv compressed_kv topk"},
    {"grad/weights/attn_sink", "dattn_out attn_out attn_lse"},
    {"grad/forward/q_up", "dq q_up"},
    {"grad/weights/wq_b", "dq_up q_latent"},
    {"grad/forward/q_latent", "dq_up"},
    {"grad/weights/q_norm", "dq_latent q_down"},
    {"grad/forward/q_down", "dq_latent q_down"},
    {"grad/weights/wq_a", "dq_down"},
    {"grad/forward/kv", "dattn_out attn_out attn_lse q kv compressed_kv topk"},
    {"grad/forward/compressed_kv", "dattn_out attn_out attn_lse q kv compressed_kv topk"},
    {"grad/forward/index_k", "dindex_scores index_q index_k index_w"},
    {"grad/weights/compressor.norm", "dcompressed_kv compressed_pooled"},
    {"grad/forward/compressed_pooled", "dcompressed_kv compressed_pooled"},
    {"grad/weights/compressor.ape", "dcompressed_pooled compressed_pooled"},
    {"grad/weights/compressor.wkv", "dcompressed_pooled"},
    {"grad/weights/compressor.wgate", "dcompressed_pooled compressed_pooled"},
    {"grad/weights/indexer.compressor.norm", "dindex_k index_pooled"},
    {"grad/forward/index_pooled", "dindex_k index_pooled"},
    {"grad/weights/indexer.compressor.ape", "dindex_pooled index_pooled"},
    {"grad/weights/indexer.compressor.wkv", "dindex_pooled"},
    {"grad/weights/indexer.compressor.wgate", "dindex_pooled index_pooled"},
    {"grad/weights/kv_norm", "dkv kv_proj"},
    {"grad/forward/kv_proj", "dkv kv_proj"},
    {"grad/weights/wkv", "dkv_proj"},
    {"grad/inputs/hidden", "dq_down dkv_proj dcompressed_pooled compressed_pooled"},
};

template <typename Body>
void for_each_word(std::string_view words, Body body) {
  while (!words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    body(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
}

}  // namespace

const std::vector<DatasetId>& computation_order() {
  static const std::vector<DatasetId> order = [] {
    std::vector<DatasetId> all;
    for (const contract::StageInfo& stage : contract::kStages) all.push_back(DatasetId::forward(stage.id));
    for (const auto& [path, inputs] : kGradientOrder) all.push_back(*contract::find_dataset(path));
    return all;
  }();
  return order;
}

std::vector<DatasetId> direct_inputs(DatasetId id) {
  std::vector<DatasetId> inputs;
  if (id.is_forward()) {
    for_each_word(info(*id.stage()).inputs, [&](std::string_view word) {
      if (const auto stage = contract::find_stage(word)) inputs.push_back(DatasetId::forward(*stage));
    });
    return inputs;
  }
  for (const auto& [path, words] : kGradientOrder)
    if (id.path() == path)
      for_each_word(words, [&](std::string_view word) {
        if (const auto stage = contract::find_stage(word))
          inputs.push_back(DatasetId::forward(*stage));
        else if (const auto gradient = contract::find_stage(word.substr(1)))
          inputs.push_back(DatasetId::gradient(*gradient));
      });
  return inputs;
}

}  // namespace plumbline::compare
