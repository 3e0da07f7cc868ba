#include "reference/contract/precision.hpp"

#include <algorithm>

namespace plumbline::contract {

namespace {

PrecisionProfile uniform_profile(std::string name, std::string meaning, NumberFormat format) {
  PrecisionProfile p;
  p.name = std::move(name);
  p.meaning = std::move(meaning);
  p.inputs = p.weights = p.compute = p.accumulation = format;
  p.storage.fill(format);
  p.casts.fill(format);
  return p;
}

void store(PrecisionProfile& p, NumberFormat format, std::initializer_list<DatasetId> datasets) {
  for (const DatasetId id : datasets) p.storage[id.index()] = format;
}

void cast(PrecisionProfile& p, NumberFormat format, std::initializer_list<CastPoint> points) {
  for (const CastPoint point : points) p.casts[static_cast<std::size_t>(point)] = format;
}

PrecisionProfile bf16_fused() {
  PrecisionProfile p = uniform_profile(
      "bf16-fused",
      "bf16 storage, fp32 inside kernels: p, dz and the cotangents of pooling and index products are bf16",
      NumberFormat::kFp32);
  p.inputs = p.weights = NumberFormat::kBf16;
  p.accumulation = NumberFormat::kFp32Truncated;
  for (const StageInfo& stage : kStages) {
    store(p, NumberFormat::kBf16, {DatasetId::forward(stage.id)});
    if (stage.has_gradient) store(p, NumberFormat::kBf16, {DatasetId::gradient(stage.id)});
  }
  store(p, NumberFormat::kBf16, {DatasetId::hidden_gradient()});
  for (const StageId id :
       {StageId::kIndexW, StageId::kIndexScores, StageId::kTopk, StageId::kAttnLse, StageId::kMaxLogits,
        StageId::kTeacher, StageId::kPredict, StageId::kKlRows, StageId::kIndexerLoss})
    store(p, NumberFormat::kFp32, {DatasetId::forward(id)});
  store(p, NumberFormat::kFp32, {DatasetId::gradient(StageId::kIndexScores), DatasetId::gradient(StageId::kKlRows)});
  cast(p, NumberFormat::kBf16,
       {CastPoint::kProbability, CastPoint::kLogitCotangent, CastPoint::kPoolCotangent, CastPoint::kIndexCotangent});
  return p;
}

PrecisionProfile bf16_eager() {
  PrecisionProfile p = bf16_fused();
  p.name = "bf16-eager";
  p.meaning = "bf16 with a rounding after each framework operation; softmax, losses and sums inside one operation fp32";
  store(p, NumberFormat::kBf16,
        {DatasetId::forward(StageId::kIndexW), DatasetId::forward(StageId::kIndexScores),
         DatasetId::gradient(StageId::kIndexScores)});
  for (const WeightInfo& weight : kWeights)
    if (!weight.fp32_storage) store(p, NumberFormat::kBf16, {DatasetId::gradient(weight.id)});
  cast(p, NumberFormat::kBf16,
       {CastPoint::kRmsNormalized, CastPoint::kUnrotated, CastPoint::kRopeFactors, CastPoint::kPoolProjection,
        CastPoint::kPoolWeight, CastPoint::kLogit, CastPoint::kIndexProduct, CastPoint::kIndexTerm,
        CastPoint::kHiddenPartial});
  return p;
}

PrecisionProfile bf16_fp8index() {
  PrecisionProfile p = bf16_fused();
  p.name = "bf16-fp8index";
  p.meaning =
      "bf16-fused, with index_q and index_k rounded to fp8 (one power-of-two scale a row) where scores read them";
  cast(p, NumberFormat::kFp8E4m3, {CastPoint::kIndexOperand});
  return p;
}

}  // namespace

const std::vector<CastPointInfo>& cast_points() {
  static const std::vector<CastPointInfo> all = {
      {CastPoint::kRmsNormalized, "rms_normalized", "x / rms before the gain"},
      {CastPoint::kUnrotated, "unrotated", "what RoPE rotates and what the Hadamard transform takes, forward"},
      {CastPoint::kRopeFactors, "rope_factors", "cos and sin"},
      {CastPoint::kPoolProjection, "pool_projection", "value and logit of the compressor's slots"},
      {CastPoint::kPoolWeight, "pool_weight", "softmax weights of a group"},
      {CastPoint::kPoolCotangent, "pool_cotangent", "cotangents of value and logit before their products"},
      {CastPoint::kLogit, "logit", "z"},
      {CastPoint::kProbability, "probability", "p as a factor of keys and, backward, of the cotangent of attn_out"},
      {CastPoint::kLogitCotangent, "logit_cotangent", "dz before its products"},
      {CastPoint::kIndexOperand, "index_operand", "index_q and index_k as factors of the scores"},
      {CastPoint::kIndexProduct, "index_product", "index_q . index_k of one head"},
      {CastPoint::kIndexTerm, "index_term", "index_w * relu(product)"},
      {CastPoint::kIndexCotangent, "index_cotangent", "cotangent of index_q . index_k before its products"},
      {CastPoint::kHiddenPartial, "hidden_partial", "each path's contribution to the gradient of hidden"},
  };
  return all;
}

std::optional<CastPoint> find_cast_point(std::string_view name) {
  for (const CastPointInfo& point : cast_points())
    if (point.name == name) return point.id;
  return std::nullopt;
}

NumberFormat PrecisionProfile::weight_format(WeightId id) const {
  return info(id).fp32_storage && weights != NumberFormat::kFp64 ? NumberFormat::kFp32 : weights;
}

const std::vector<PrecisionProfile>& precision_profiles() {
  static const std::vector<PrecisionProfile> all = {
      uniform_profile("fp64", "double precision throughout, judged by the golden rule", NumberFormat::kFp64),
      uniform_profile("fp32", "true fp32 throughout: storage, arithmetic, sums; no TF32", NumberFormat::kFp32),
      bf16_fused(),
      bf16_eager(),
      bf16_fp8index(),
  };
  return all;
}

const PrecisionProfile* find_precision_profile(std::string_view name) {
  for (const PrecisionProfile& profile : precision_profiles())
    if (profile.name == name || (name == "bf16" && profile.name == "bf16-fused")) return &profile;
  return nullptr;
}

bool may_stay_unrounded(DatasetId id) {
  for (const StageId stage : {StageId::kQDown, StageId::kQUp, StageId::kKvProj, StageId::kCompressedPooled,
                              StageId::kIndexPooled, StageId::kIndexScores, StageId::kAttnOut, StageId::kAttnLse,
                              StageId::kTeacher, StageId::kPredict, StageId::kKlRows})
    if (id == DatasetId::forward(stage)) return true;
  for (const StageId stage : {StageId::kQ, StageId::kQLatent, StageId::kKv, StageId::kCompressedKv,
                              StageId::kCompressedPooled, StageId::kIndexQ, StageId::kIndexK, StageId::kIndexPooled,
                              StageId::kIndexW, StageId::kIndexScores, StageId::kAttnOutDerotated})
    if (id == DatasetId::gradient(stage)) return true;
  return false;
}

Problem round_problem(Problem problem, const PrecisionProfile& profile) {
  const auto round_all = [](Tensor& tensor, NumberFormat format) {
#pragma omp parallel for schedule(static) if (tensor.size() > (1 << 16))
    for (Index i = 0; i < tensor.size(); ++i) tensor[i] = round_to(format, tensor[i]);
  };
  round_all(problem.hidden, profile.inputs);
  round_all(problem.grad_out, profile.inputs);
  for (const WeightInfo& weight : kWeights) round_all(problem.weight(weight.id), profile.weight_format(weight.id));
  return problem;
}

}  // namespace plumbline::contract
