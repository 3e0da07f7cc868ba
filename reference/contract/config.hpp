#pragma once
#include <array>
#include <string>
#include <string_view>
#include <variant>

#include "reference/contract/result.hpp"
#include "reference/contract/types.hpp"

namespace plumbline::contract {

/// Which denominator the indexer's teacher uses (`attention.md` section 4). `kCompressedOnly` is a known-wrong
/// variant, kept so that code which had it can be recognised.
enum class Teacher { kFull, kCompressedOnly };

/// Everything that defines one attention layer except its weights: sizes, rotary embedding, loss.
/// Names are those of the golden files' `config` attributes and of the case keys.
struct LayerConfig {
  Index hidden = 0;
  Index heads = 0;
  Index head_dim = 0;
  Index rope_dim = 0;
  Index q_lora_rank = 0;
  Index o_groups = 0;
  Index o_lora_rank = 0;
  Index ratio = 0;  ///< tokens per compressed entry; 0 and 1 both mean no compression
  bool overlap = false;
  bool indexer = false;
  Index index_heads = 0;
  Index index_dim = 0;
  Index index_topk = 0;
  Index window = 0;  ///< keys a query sees directly, itself included
  double rope_base = 0;
  double yarn_factor = 1;
  Index yarn_orig = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  double eps = 0;
  double loss_coeff = 0;
  double loss_scale = 1;
  bool sparse_loss = false;
  bool per_token_loss = false;
  Teacher teacher = Teacher::kFull;

  bool operator==(const LayerConfig&) const = default;

  bool compressed() const { return ratio > 1; }
  bool yarn() const { return compressed() && yarn_orig > 0 && yarn_factor != 1; }
  /// Channel blocks of the compressor's projections: 2 with overlap (previous group's and own), else 1.
  Index coff() const { return overlap ? 2 : 1; }
  Index heads_per_group() const { return heads / o_groups; }
};

/// One row of the field table: the name used in files and cases, and the member it stands for.
struct ConfigField {
  using Member = std::variant<Index LayerConfig::*, double LayerConfig::*, bool LayerConfig::*, Teacher LayerConfig::*>;
  std::string_view name;
  Member member;
  bool required;  ///< must be present in a golden file
  std::string_view meaning;
};

inline constexpr auto kConfigFields = std::to_array<ConfigField>({
    {"hidden", &LayerConfig::hidden, true, "width h of the residual stream"},
    {"heads", &LayerConfig::heads, true, "query heads H (one KV head)"},
    {"head_dim", &LayerConfig::head_dim, true, "channels D of a head; key and value are the same vector"},
    {"rope_dim", &LayerConfig::rope_dim, true, "rotated channels P, the last of each head; even, <= head_dim"},
    {"q_lora_rank", &LayerConfig::q_lora_rank, true, "width Rq of the query latent"},
    {"o_groups", &LayerConfig::o_groups, true, "output groups G; divides heads"},
    {"o_lora_rank", &LayerConfig::o_lora_rank, true, "width Ro of one group's output latent"},
    {"ratio", &LayerConfig::ratio, true, "tokens per compressed entry; 0 or 1: sliding window only"},
    {"overlap", &LayerConfig::overlap, false, "a group pools the previous group's tokens too"},
    {"indexer", &LayerConfig::indexer, false, "select entries with the lightning indexer (else all visible)"},
    {"index_heads", &LayerConfig::index_heads, false, "indexer heads Hi"},
    {"index_dim", &LayerConfig::index_dim, false, "indexer head width Di; a power of two >= rope_dim"},
    {"index_topk", &LayerConfig::index_topk, false, "entries K a query selects"},
    {"window", &LayerConfig::window, true, "sliding window W in tokens, the query included"},
    {"rope_base", &LayerConfig::rope_base, true, "rotary base of this layer"},
    {"yarn_factor", &LayerConfig::yarn_factor, false, "YaRN interpolation factor; 1: none"},
    {"yarn_orig", &LayerConfig::yarn_orig, false, "YaRN original context length; 0: no YaRN"},
    {"beta_fast", &LayerConfig::beta_fast, false, "YaRN upper rotation bound"},
    {"beta_slow", &LayerConfig::beta_slow, false, "YaRN lower rotation bound"},
    {"eps", &LayerConfig::eps, true, "epsilon inside every root mean square"},
    {"loss_coeff", &LayerConfig::loss_coeff, true, "coefficient of the indexer loss"},
    {"loss_scale", &LayerConfig::loss_scale, true, "scale of the indexer loss in the objective"},
    {"sparse_loss", &LayerConfig::sparse_loss, false, "loss over the selected entries (else all visible)"},
    {"per_token_loss", &LayerConfig::per_token_loss, false, "sum over rows (else mean over valid rows)"},
    {"teacher", &LayerConfig::teacher, true, "full | compressed_only"},
});

/// Largest value any size may have, and largest element count any one tensor may have. Far above every model, low
/// enough that no product of sizes in this code can wrap 64 bits.
inline constexpr Index kMaxExtent = Index{1} << 31;
inline constexpr Index kMaxElements = Index{1} << 44;

/// Checks every size and relation of `attention.md` section 1 and 2. The error's `where` is the field's name.
Status validate(const LayerConfig& config);

std::string_view to_string(Teacher teacher);

}  // namespace plumbline::contract
