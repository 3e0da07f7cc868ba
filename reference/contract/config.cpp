#include "reference/contract/config.hpp"

#include <cmath>
#include <initializer_list>
#include <string>

namespace plumbline::contract {
namespace {

Error bad(std::string_view field, std::string got, std::string_view allowed) {
  return usage_error("config/" + std::string(field), "got " + std::move(got) + ", allowed: " + std::string(allowed));
}

Status validate_size(std::string_view field, Index value) {
  if (value < 1 || value > kMaxExtent) return bad(field, std::to_string(value), "1.." + std::to_string(kMaxExtent));
  return {};
}

std::string number(double value) {
  std::string text = std::to_string(value);
  return std::isfinite(value) ? text : (std::isnan(value) ? "NaN" : value > 0 ? "Inf" : "-Inf");
}

Status validate_positive(std::string_view field, double value) {
  if (!(std::isfinite(value) && value > 0)) return bad(field, number(value), "a finite number > 0");
  return {};
}

/// No matrix of the layer may have more elements than an allocation can hold.
Status validate_product(std::string_view what, std::initializer_list<Index> extents) {
  Index product = 1;
  for (Index extent : extents) {
    if (extent > 0 && product > kMaxElements / extent)
      return usage_error("config", std::string(what) + " would have more than 2^44 elements; reduce its sizes");
    product *= extent;
  }
  return {};
}

Status validate_yarn(const LayerConfig& c) {
  if (!c.compressed()) return {};  // such layers ignore the YaRN fields
  if (c.yarn_orig < 0 || c.yarn_orig > kMaxExtent)
    return bad("yarn_orig", std::to_string(c.yarn_orig), "0.." + std::to_string(kMaxExtent));
  if (auto s = validate_positive("yarn_factor", c.yarn_factor); !s) return s;
  if (!c.yarn()) return {};
  if (auto s = validate_positive("beta_fast", c.beta_fast); !s) return s;
  if (auto s = validate_positive("beta_slow", c.beta_slow); !s) return s;
  if (!(c.rope_base > 1)) return bad("rope_base", number(c.rope_base), "> 1 when YaRN is on");
  const auto dimension = [&](double rotations) {
    return double(c.rope_dim) * std::log(double(c.yarn_orig) / (2 * M_PI * rotations)) / (2 * std::log(c.rope_base));
  };
  const double low = std::max(std::floor(dimension(c.beta_fast)), 0.0);
  const double high = std::min(std::ceil(dimension(c.beta_slow)), double(c.rope_dim - 1));
  if (high < low)
    return bad("yarn_orig", std::to_string(c.yarn_orig),
               "an original length large enough that the YaRN ramp does not end (" + number(high) +
                   ") before it starts (" + number(low) + ")");
  return {};
}

Status validate_compression(const LayerConfig& c) {
  if (c.ratio < 0 || c.ratio > kMaxExtent)
    return bad("ratio", std::to_string(c.ratio), "0.." + std::to_string(kMaxExtent));
  if (!c.compressed()) {
    if (c.indexer) return bad("indexer", "true with ratio " + std::to_string(c.ratio), "the indexer needs ratio >= 2");
    if (c.overlap) return bad("overlap", "true with ratio " + std::to_string(c.ratio), "overlap needs ratio >= 2");
    return {};
  }
  if (!c.indexer) return {};
  if (auto s = validate_size("index_heads", c.index_heads); !s) return s;
  if (auto s = validate_size("index_dim", c.index_dim); !s) return s;
  if (auto s = validate_size("index_topk", c.index_topk); !s) return s;
  if ((c.index_dim & (c.index_dim - 1)) != 0)
    return bad("index_dim", std::to_string(c.index_dim), "a power of two (Hadamard)");
  if (c.index_dim < c.rope_dim)
    return bad("index_dim", std::to_string(c.index_dim), ">= rope_dim (" + std::to_string(c.rope_dim) + ")");
  return {};
}

}  // namespace

std::string_view to_string(Teacher teacher) { return teacher == Teacher::kFull ? "full" : "compressed_only"; }

Status validate(const LayerConfig& c) {
  for (auto [field, value] : {std::pair<std::string_view, Index>{"hidden", c.hidden},
                              {"heads", c.heads},
                              {"head_dim", c.head_dim},
                              {"rope_dim", c.rope_dim},
                              {"q_lora_rank", c.q_lora_rank},
                              {"o_groups", c.o_groups},
                              {"o_lora_rank", c.o_lora_rank},
                              {"window", c.window}})
    if (auto s = validate_size(field, value); !s) return s;
  if (c.rope_dim % 2 != 0) return bad("rope_dim", std::to_string(c.rope_dim), "an even number (adjacent pairs rotate)");
  if (c.rope_dim > c.head_dim)
    return bad("rope_dim", std::to_string(c.rope_dim), "<= head_dim (" + std::to_string(c.head_dim) + ")");
  if (c.heads % c.o_groups != 0)
    return bad("o_groups", std::to_string(c.o_groups), "a divisor of heads (" + std::to_string(c.heads) + ")");
  if (auto s = validate_positive("rope_base", c.rope_base); !s) return s;
  if (auto s = validate_positive("eps", c.eps); !s) return s;
  if (!std::isfinite(c.loss_coeff)) return bad("loss_coeff", number(c.loss_coeff), "a finite number");
  if (!std::isfinite(c.loss_scale)) return bad("loss_scale", number(c.loss_scale), "a finite number");
  if (auto s = validate_compression(c); !s) return s;
  if (auto s = validate_yarn(c); !s) return s;
  if (auto s = validate_product("wq_b", {c.heads, c.head_dim, c.q_lora_rank}); !s) return s;
  if (auto s = validate_product("wq_a", {c.q_lora_rank, c.hidden}); !s) return s;
  if (auto s = validate_product("wkv", {c.head_dim, c.hidden}); !s) return s;
  if (auto s = validate_product("wo_a", {c.heads, c.head_dim, c.o_lora_rank}); !s) return s;
  if (auto s = validate_product("wo_b", {c.hidden, c.o_groups, c.o_lora_rank}); !s) return s;
  if (c.compressed()) {
    if (auto s = validate_product("compressor.wkv", {2, c.head_dim, c.hidden}); !s) return s;
    if (auto s = validate_product("compressor.ape", {c.ratio, 2, c.head_dim}); !s) return s;
  }
  if (c.indexer) {
    if (auto s = validate_product("indexer.wq_b", {c.index_heads, c.index_dim, c.q_lora_rank}); !s) return s;
    if (auto s = validate_product("indexer.compressor.wkv", {2, c.index_dim, c.hidden}); !s) return s;
  }
  return {};
}

}  // namespace plumbline::contract
