#include "reference/contract/presets.hpp"

#include <string>

namespace plumbline::contract {
namespace {

LayerConfig tiny_shape() {
  LayerConfig c;
  c.hidden = 40;
  c.heads = 6;
  c.head_dim = 48;
  c.rope_dim = 8;
  c.q_lora_rank = 24;
  c.o_groups = 2;
  c.o_lora_rank = 10;
  c.window = 11;
  c.index_heads = 5;
  c.index_dim = 16;
  c.index_topk = 7;
  c.yarn_orig = 256;  // with base 500 and 8 rotated channels: ramp 0, 1/3, 2/3, 1
  return c;
}

LayerConfig tiny_tp_shape() {
  LayerConfig c = tiny_shape();
  c.heads = 16;
  c.head_dim = 32;
  c.o_groups = 8;
  c.index_heads = 8;
  return c;
}

LayerConfig flash_shape() {
  LayerConfig c;
  c.hidden = 4096;
  c.heads = 64;
  c.head_dim = 512;
  c.rope_dim = 64;
  c.q_lora_rank = 1024;
  c.o_groups = 8;
  c.o_lora_rank = 1024;
  c.window = 128;
  c.index_heads = 64;
  c.index_dim = 128;
  c.index_topk = 512;
  c.yarn_orig = 65536;
  return c;
}

LayerConfig pro_shape() {
  LayerConfig c = flash_shape();
  c.hidden = 7168;
  c.heads = 128;
  c.q_lora_rank = 1536;
  c.o_groups = 16;
  c.index_topk = 1024;
  return c;
}

bool is_real(std::string_view model) { return model == "flash" || model == "pro"; }

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"tiny", "every size small and different; the default"},
      {"tiny-tp", "tiny with 16 heads in 8 output groups, for parallel degrees"},
      {"flash", "V4-Flash"},
      {"pro", "V4-Pro"},
  };
  return all;
}

Result<LayerConfig> preset(LayerKind kind, std::string_view model) {
  LayerConfig c;
  if (model == "tiny") {
    c = tiny_shape();
  } else if (model == "tiny-tp") {
    c = tiny_tp_shape();
  } else if (model == "flash") {
    c = flash_shape();
  } else if (model == "pro") {
    c = pro_shape();
  } else {
    return usage_error("model", "unknown model '" + std::string(model) + "', allowed: tiny, tiny-tp, flash, pro");
  }
  c.ratio = kind == LayerKind::kSwa ? 0 : kind == LayerKind::kCsa ? 4 : 128;
  c.overlap = c.indexer = kind == LayerKind::kCsa;
  c.rope_base = kind == LayerKind::kSwa ? 10000 : is_real(model) ? 160000 : 500;
  c.yarn_factor = 16;
  c.eps = 1e-6;
  c.loss_coeff = 0.01;
  c.sparse_loss = true;
  return c;
}

Index default_length(LayerKind kind, std::string_view model) {
  if (is_real(model)) return 1024;
  return kind == LayerKind::kHca ? 300 : 37;
}

}  // namespace plumbline::contract
