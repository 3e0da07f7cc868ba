#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reference/contract/dataset.hpp"
#include "reference/contract/number_format.hpp"
#include "reference/contract/problem.hpp"

namespace plumbline::contract {

/// Places inside stages where implementations round although nothing is stored there.
enum class CastPoint : unsigned char {
  kRmsNormalized,   ///< x / rms before the gain
  kUnrotated,       ///< what RoPE rotates, and what the Hadamard transform takes, forward
  kRopeFactors,     ///< cos and sin
  kPoolProjection,  ///< value and logit of the compressor's slots
  kPoolWeight,      ///< softmax weights of a group
  kPoolCotangent,   ///< cotangents of value and logit before their products
  kLogit,           ///< z
  kProbability,     ///< p as a factor of keys and, backward, of attn_out's cotangent
  kLogitCotangent,  ///< dz before its products
  kIndexOperand,    ///< index_q and index_k as factors of the scores
  kIndexProduct,    ///< index_q . index_k of one head
  kIndexTerm,       ///< index_w * relu(product)
  kIndexCotangent,  ///< cotangent of the product before its products
  kHiddenPartial,   ///< each path's contribution to hidden's gradient
};

struct CastPointInfo {
  CastPoint id;
  std::string_view name;
  std::string_view meaning;
};
const std::vector<CastPointInfo>& cast_points();
inline constexpr std::size_t kCastPointCount = 14;
std::optional<CastPoint> find_cast_point(std::string_view name);

/// How an implementation rounds. Roundings are permissions: to round less is never an error. Truth is computed in
/// double precision on inputs and weights rounded to `inputs` and `weights`.
struct PrecisionProfile {
  std::string name;
  std::string meaning;
  NumberFormat inputs = NumberFormat::kFp64;              ///< hidden and grad_out
  NumberFormat weights = NumberFormat::kFp64;             ///< but attn_sink and ape, see `weight_format`
  std::array<NumberFormat, DatasetId::kCount> storage{};  ///< of each stage and gradient
  std::array<NumberFormat, kCastPointCount> casts{};      ///< `compute` where nothing is rounded
  NumberFormat compute = NumberFormat::kFp64;             ///< element-wise arithmetic, and what sums are returned in
  NumberFormat accumulation = NumberFormat::kFp64;        ///< of sums of products
  bool exact_angles = true;  ///< false: RoPE angles t * f are fp32 products of fp32 frequencies

  NumberFormat stored(DatasetId id) const { return storage[id.index()]; }
  NumberFormat cast(CastPoint point) const { return casts[static_cast<std::size_t>(point)]; }
  /// attn_sink and ape are fp32 in every profile but fp64.
  NumberFormat weight_format(WeightId id) const;
  bool operator==(const PrecisionProfile&) const = default;
};

/// The named profiles: fp64, fp32, bf16-fused, bf16-eager, bf16-fp8index.
const std::vector<PrecisionProfile>& precision_profiles();
/// By name; "bf16" is bf16-fused. Null if there is none.
const PrecisionProfile* find_precision_profile(std::string_view name);

/// Whether what follows the dataset works element by element or row by row, so that a fused kernel may go on with the
/// unrounded value although it stores the rounded one.
bool may_stay_unrounded(DatasetId id);

/// The problem as an implementation of this profile receives it.
Problem round_problem(Problem problem, const PrecisionProfile& profile);

}  // namespace plumbline::contract
