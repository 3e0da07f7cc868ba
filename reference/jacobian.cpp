#include "reference/jacobian.hpp"

#include <algorithm>
#include <cmath>

#include "reference/contract/nearest.hpp"
#include "reference/exact.hpp"
#include "reference/hadamard.hpp"
#include "reference/jacobian_map.hpp"
#include "reference/rms_norm.hpp"
#include "reference/rope.hpp"

namespace plumbline::reference {

using namespace contract;

namespace {

constexpr Index kMaxJacobianElements = Index{1} << 24;
constexpr double kMaxProblemBytes = 0x1p30;

using Values = std::vector<double>;
using Maps = std::vector<JacobianMap>;

/// A case with the values of its stages, and one query row to look at: the last valid one.
class Scene {
 public:
  Scene(Problem problem, Results results, Index row) : problem_(std::move(problem)), results_(std::move(results)) {
    row_ = row;
    segment_ = problem_.packing.segment_of(row);
    first_row_ = problem_.packing.offsets[segment_];
    for (Index b = 0; b < segment_; ++b) first_entry_ += problem_.packing.groups(b, config().ratio);
    visible_ = visible_entries(position(), config().ratio, problem_.packing.groups(segment_, config().ratio));
  }

  const LayerConfig& config() const { return problem_.config; }
  Index position() const { return row_ - first_row_; }
  /// The last entry that the row sees, in its segment; -1 if it sees none.
  Index group() const { return visible_ - 1; }
  Index group_position() const { return entry_position(group(), config().ratio); }
  const Values& weight(WeightId id) const { return problem_.weight(id).values(); }

  /// The first `width` channels of a stage, at the query row or at the last visible entry.
  Values at_row(StageId id, Index width) const { return leading(id, row_, width); }
  Values at_entry(StageId id, Index width) const { return leading(id, first_entry_ + group(), width); }

  /// Values and logits of a group, as the compressor pools them.
  JacobianMap pooling(Index g, bool index) const {
    const LayerConfig& c = config();
    const Index width = index ? c.index_dim : c.head_dim;
    const Tensor& wkv = problem_.weight(index ? WeightId::kIndexerCompressorWkv : WeightId::kCompressorWkv);
    const Tensor& gate = problem_.weight(index ? WeightId::kIndexerCompressorWgate : WeightId::kCompressorWgate);
    const Tensor& ape = problem_.weight(index ? WeightId::kIndexerCompressorApe : WeightId::kCompressorApe);
    Values values, logits;
    const auto add = [&](Index first_token, Index first_channel) {
      for (Index k = 0; k < c.ratio; ++k) {
        const double* x = problem_.hidden.row(first_row_ + first_token + k);
        for (Index i = first_channel; i < first_channel + width; ++i) {
          values.push_back(dot(x, wkv.row(i), c.hidden));
          logits.push_back(dot(x, gate.row(i), c.hidden) + ape.row(k)[i]);
        }
      }
    };
    const bool predecessor = c.overlap && g > 0;
    if (predecessor) add((g - 1) * c.ratio, 0);
    add(g * c.ratio, (c.coff() - 1) * width);
    return pooling_map(values, logits, width,
                       std::string(index ? "index_pooled" : "compressed_pooled") + ", entry " + std::to_string(g) +
                           (predecessor ? " and its predecessor's slots" : ""));
  }

  /// Logits of head 0 for all keys of the row: its window, then its picks.
  JacobianMap softmax() const {
    const LayerConfig& c = config();
    const Values q = at_row(StageId::kQ, c.head_dim);
    const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
    Values logits;
    const auto add = [&](StageId keys, Index row) {
      logits.push_back(scale * dot(q.data(), results_.at(DatasetId::forward(keys)).row(row), c.head_dim));
    };
    for (Index t = window_begin(position(), c.window); t <= position(); ++t) add(StageId::kKv, first_row_ + t);
    if (c.indexer) {
      const Tensor& picks = results_.at(DatasetId::forward(StageId::kTopk));
      for (Index k = 0; k < picks.row_size(); ++k)
        if (picks.row(row_)[k] >= 0) add(StageId::kCompressedKv, first_entry_ + static_cast<Index>(picks.row(row_)[k]));
    } else {
      for (Index g = 0; g < visible_; ++g) add(StageId::kCompressedKv, first_entry_ + g);
    }
    return sink_softmax_map(std::move(logits), weight(WeightId::kAttnSink)[0], "attn_out, head 0");
  }

 private:
  Values leading(StageId id, Index row, Index width) const {
    const double* from = results_.at(DatasetId::forward(id)).row(row);
    return Values(from, from + width);
  }

  Problem problem_;
  Results results_;
  Index row_ = 0, segment_ = 0, first_row_ = 0, first_entry_ = 0, visible_ = 0;
};

Values normalised(const Values& x, const Values& gain, double eps) {
  Values y(x.size());
  rms_norm(x.data(), gain.empty() ? nullptr : gain.data(), eps, static_cast<Index>(x.size()), y.data());
  return y;
}

/// A norm and the rotation behind it.
Maps norm_and_rotation(const Scene& s, const Values& x, const Values& gain, Index t, const std::string& at) {
  const double eps = s.config().eps;
  return {rms_norm_map(eps, x, gain, at), rope_map(s.config(), normalised(x, gain, eps), t, false, at)};
}

Maps q_latent_maps(const Scene& s) {
  return {rms_norm_map(s.config().eps, s.at_row(StageId::kQDown, s.config().q_lora_rank), s.weight(WeightId::kQNorm),
                       "q_latent")};
}

Maps q_maps(const Scene& s) {
  return norm_and_rotation(s, s.at_row(StageId::kQUp, s.config().head_dim), {}, s.position(), "q, head 0");
}

Maps kv_maps(const Scene& s) {
  return norm_and_rotation(s, s.at_row(StageId::kKvProj, s.config().head_dim), s.weight(WeightId::kKvNorm),
                           s.position(), "kv");
}

Maps compressed_kv_maps(const Scene& s) {
  return norm_and_rotation(s, s.at_entry(StageId::kCompressedPooled, s.config().head_dim),
                           s.weight(WeightId::kCompressorNorm), s.group_position(), "compressed_kv");
}

/// The Hadamard transform undoes itself, so what went into it follows from the stage's value.
Values before_hadamard(Values x) {
  hadamard(x.data(), static_cast<Index>(x.size()));
  return x;
}

Maps index_q_maps(const Scene& s) {
  const Values rotated = before_hadamard(s.at_row(StageId::kIndexQ, s.config().index_dim));
  Values projected = rotated;
  RopeTable<double>(s.config(), s.position() + 1).rotate_back(projected.data(), s.config().index_dim, s.position());
  return {rope_map(s.config(), projected, s.position(), false, "index_q, head 0"),
          hadamard_map(rotated, "index_q, head 0")};
}

Maps index_k_maps(const Scene& s) {
  Maps maps = norm_and_rotation(s, s.at_entry(StageId::kIndexPooled, s.config().index_dim),
                                s.weight(WeightId::kIndexerCompressorNorm), s.group_position(), "index_k");
  maps.push_back(hadamard_map(before_hadamard(s.at_entry(StageId::kIndexK, s.config().index_dim)), "index_k"));
  return maps;
}

/// The last visible entry's group, and the segment's first, which has no predecessor to pool.
Maps pooling_maps(const Scene& s, bool index) {
  Maps maps{s.pooling(s.group(), index)};
  if (s.config().overlap && s.group() > 0) maps.push_back(s.pooling(0, index));
  return maps;
}

Maps inverse_rope_maps(const Scene& s) {
  return {rope_map(s.config(), s.at_row(StageId::kAttnOut, s.config().head_dim), s.position(), true,
                   "attn_out_derotated, head 0")};
}

Maps softmax_maps(const Scene& s) { return {s.softmax()}; }

/// A name that users may ask for, what the layer must have for it, and the maps behind it.
struct Entry {
  std::string_view name;
  Presence presence;
  Maps (*maps)(const Scene&);
};

constexpr auto kEntries = std::to_array<Entry>({
    {"rope", Presence::kAlways, [](const Scene& s) { return Maps{q_maps(s).back()}; }},
    {"inverse_rope", Presence::kAlways, inverse_rope_maps},
    {"rms_norm", Presence::kAlways, q_latent_maps},
    {"rms_norm_weightless", Presence::kAlways, [](const Scene& s) { return Maps{q_maps(s).front()}; }},
    {"pooling", Presence::kCompressed, [](const Scene& s) { return pooling_maps(s, false); }},
    {"hadamard", Presence::kIndexer, [](const Scene& s) { return Maps{index_q_maps(s).back()}; }},
    {"sink_softmax", Presence::kAlways, softmax_maps},
    {"q_latent", Presence::kAlways, q_latent_maps},
    {"q", Presence::kAlways, q_maps},
    {"kv", Presence::kAlways, kv_maps},
    {"compressed_pooled", Presence::kCompressed, [](const Scene& s) { return pooling_maps(s, false); }},
    {"compressed_kv", Presence::kCompressed, compressed_kv_maps},
    {"index_q", Presence::kIndexer, index_q_maps},
    {"index_pooled", Presence::kIndexer, [](const Scene& s) { return pooling_maps(s, true); }},
    {"index_k", Presence::kIndexer, index_k_maps},
    {"attn_out", Presence::kAlways, softmax_maps},
    {"attn_out_derotated", Presence::kAlways, inverse_rope_maps},
});

/// The last valid query row; if `sees_entry`, the last that sees a compressed entry. -1: none.
Index last_row(const Packing& packing, Index ratio, bool sees_entry) {
  for (Index row = packing.tokens() - 1; row >= 0; --row) {
    if (!packing.row_valid[row]) continue;
    const Index b = packing.segment_of(row);
    if (!sees_entry || visible_entries(row - packing.offsets[b], ratio, packing.groups(b, ratio)) > 0) return row;
  }
  return -1;
}

/// Dense matrices are for small cases; refuses what would not fit before anything is allocated.
Status check_size(const Case& c) {
  const double dim = static_cast<double>(std::max(c.config.head_dim, c.config.q_lora_rank));
  const double slots = static_cast<double>(c.config.coff() * std::max(c.config.ratio, Index{1}));
  if (2 * slots * dim * dim <= static_cast<double>(kMaxJacobianElements) && problem_bytes(c) <= kMaxProblemBytes)
    return {};
  return usage_error("jacobian", print(c) + " is too large for dense matrices; take a case of model=tiny");
}

Result<Scene> make_scene(const Case& c, bool sees_entry) {
  if (auto status = check_size(c); !status) return status.error();
  auto problem = make_problem(c);
  if (!problem) return problem.error();
  const Index row = last_row(problem->packing, c.config.ratio, sees_entry);
  if (row < 0)
    return usage_error("jacobian", "no valid query row of " + print(c) +
                                       (sees_entry ? " sees a compressed entry" : " could be looked at") +
                                       "; lengthen seq or mask less");
  Request request;
  request.wanted = all_datasets(c.config, false);
  auto results = run_exact<double>(*problem, request);
  if (!results) return results.error();
  return Scene(std::move(*problem), std::move(*results), row);
}

}  // namespace

std::vector<std::string> jacobian_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  return names;
}

Result<std::vector<JacobianReport>> jacobian(std::string_view name, const Case& c) {
  const auto entry = std::find_if(kEntries.begin(), kEntries.end(), [&](const Entry& e) { return e.name == name; });
  if (entry == kEntries.end()) {
    std::string known;
    for (const std::string& one : jacobian_names()) known += (known.empty() ? "" : ", ") + one;
    return usage_error("jacobian", "unknown map or stage '" + std::string(name) + "', did you mean '" +
                                       nearest_names(name, jacobian_names(), 1).front() + "'? Allowed: " + known);
  }
  if (!c.file.empty())
    return usage_error("jacobian", "takes a case whose values are generated, got 'file=" + c.file + "'");
  if (!present(entry->presence, c.config))
    return usage_error("jacobian", "'" + std::string(name) + "' does not occur in " + print(c) + "; try a csa case");
  auto scene = make_scene(c, entry->presence != Presence::kAlways);
  if (!scene) return scene.error();
  std::vector<JacobianReport> reports;
  for (const JacobianMap& map : entry->maps(*scene)) reports.push_back(check(map));
  return reports;
}

}  // namespace plumbline::reference
