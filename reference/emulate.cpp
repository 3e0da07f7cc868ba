#include "reference/emulate.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "reference/contract/random.hpp"
#include "reference/run_layer.hpp"

namespace plumbline::reference {

namespace {

using contract::NumberFormat;
using contract::PrecisionProfile;

float round_bf16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
}

float round_float(NumberFormat format, float x) {
  switch (format) {
    case NumberFormat::kFp64:
    case NumberFormat::kFp32:
    case NumberFormat::kFp32Truncated: return x;
    case NumberFormat::kBf16: return round_bf16(x);
    default: return static_cast<float>(contract::round_to(format, x));
  }
}

bool changes_floats(NumberFormat format) {
  return format != NumberFormat::kFp64 && format != NumberFormat::kFp32 && format != NumberFormat::kFp32Truncated;
}

void round_block(NumberFormat format, MatrixMap<float> block) {
  if (!changes_floats(format)) return;
  for (Index r = 0; r < block.rows(); ++r)
    for (Index c = 0; c < block.cols(); ++c) block(r, c) = round_float(format, block(r, c));
}

/// Streams of the generator that an emulation draws from; cases use the lower ones.
constexpr std::uint32_t kOrderStream = 0x90, kBlockStream = 0x91, kSoftmaxStream = 0x92, kVariantStream = 0x93;

class EmulationPolicy : public ExactPolicy<float> {
 public:
  EmulationPolicy(const PrecisionProfile& profile, const EmulationVariant& variant, const EmulationFault& fault)
      : profile_(profile), variant_(variant), fault_(fault) {}

  void product_nt(DatasetId id, Out c, In a, In b, bool accumulate) const {
    sum_products(id, c, a, b.transpose(), accumulate);
  }
  void product_nn(DatasetId id, Out c, In a, In b, bool accumulate) const { sum_products(id, c, a, b, accumulate); }
  void product_tn(DatasetId id, Out c, In a, In b, bool accumulate) const {
    sum_products(id, c, a.transpose(), b, accumulate);
  }

  void on_stage(StageId id, const std::vector<Index>& rows, Out block) const {
    store(DatasetId::forward(id), rows, block);
  }
  void on_gradient(StageId id, const std::vector<Index>& rows, Out block) const {
    store(DatasetId::gradient(id), rows, block);
  }

  bool rounds(CastPoint point) const { return changes_floats(format_at(point)); }
  float cast(CastPoint point, float value) const { return round_float(format_at(point), value); }
  void cast(CastPoint point, float* values, Index count) const {
    if (!rounds(point) || count == 0) return;
    const NumberFormat format = format_at(point);
    if (point == CastPoint::kIndexOperand) return scale_and_round(format, values, count);
    if (point == CastPoint::kProbability) return round_probabilities(format, values, count);
    for (Index i = 0; i < count; ++i) values[i] = round_float(format, values[i]);
  }

  RopeTable<float> make_rope(const contract::LayerConfig& config, Index positions) const {
    const NumberFormat format = format_at(CastPoint::kRopeFactors);
    if (profile_.exact_angles)
      return RopeTable<float>(RopeTable<double>(config, positions),
                              [=](double x) { return round_float(format, static_cast<float>(x)); });
    return RopeTable<float>(RopeTable<float>(config, positions), [=](float x) { return round_float(format, x); });
  }

 private:
  NumberFormat format_at(CastPoint point) const {
    return variant_.casts.test(static_cast<std::size_t>(point)) ? profile_.cast(point) : profile_.compute;
  }

  void store(DatasetId id, const std::vector<Index>& rows, Out block) const {
    if (fault_.tamper) fault_.tamper(id, rows, block.data(), block.cols(), block.outerStride());
    if (variant_.store_rounded || !contract::may_stay_unrounded(id)) round_block(profile_.stored(id), block);
  }

  std::uint32_t draw(std::uint32_t stream, std::uint64_t index) const {
    return contract::philox(variant_.seed, stream, index)[0];
  }

  /// A fixed order of k terms for each dataset and length: kernels do not change theirs from tile to tile.
  std::vector<Index> order_of(DatasetId id, Index k) const {
    std::vector<Index> order(static_cast<std::size_t>(k));
    std::iota(order.begin(), order.end(), Index{0});
    for (Index i = k - 1; i > 0; --i) {
      const std::uint64_t index = (static_cast<std::uint64_t>(id.index()) << 40) + static_cast<std::uint64_t>(i);
      std::swap(
          order[static_cast<std::size_t>(i)],
          order[static_cast<std::size_t>((std::uint64_t{draw(kOrderStream, index)} * std::uint64_t(i + 1)) >> 32)]);
    }
    return order;
  }

  /// c (+)= a b over the inner axis in the variant's order and blocks, rounding partial sums where the format says.
  template <typename A, typename B>
  void sum_products(DatasetId id, Out c, const A& a, const B& b, bool accumulate) const {
    const Index k = a.cols();
    if (!accumulate) c.setZero();
    if (k == 0) return;
    const NumberFormat format =
        fault_.accumulation == NumberFormat::kFp64 ? profile_.accumulation : fault_.accumulation;
    Index block = k;
    Matrix<float> left, right;
    if (variant_.shuffled) {
      const std::vector<Index> order = order_of(id, k);
      left.resize(a.rows(), k);
      right.resize(k, b.cols());
      for (Index i = 0; i < k; ++i) {
        left.col(i) = a.col(order[static_cast<std::size_t>(i)]);
        right.row(i) = b.row(order[static_cast<std::size_t>(i)]);
      }
      block = Index{16} << draw(kBlockStream, id.index()) % 5;
    } else {
      left = a;
      right = b;
    }
    if (changes_floats(format)) block = std::min<Index>(block, 16);
    if (changes_floats(fault_.operand)) {
      round_block(fault_.operand, all(left));
      round_block(fault_.operand, all(right));
    }
    for (Index first = 0; first < k; first += block) {
      const Index count = std::min(block, k - first);
      c.noalias() += left.middleCols(first, count) * right.middleRows(first, count);
      round_block(format, c);
    }
  }

  /// One power-of-two scale for the values, which brings the largest into the format's last binade.
  static void scale_and_round(NumberFormat format, float* values, Index count) {
    float largest = 0;
    for (Index i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
    if (!(largest > 0) || std::isinf(largest)) return;
    const double scale = contract::operand_scale(format, largest);
    for (Index i = 0; i < count; ++i)
      values[i] = static_cast<float>(contract::round_to(format, values[i] / scale) * scale);
  }

  /// Kernels round exp(z - m) with m the sink-less maximum so far or at the end, and divide by the sum later; others
  /// round p itself.
  void round_probabilities(NumberFormat format, float* p, Index count) const {
    const Index kind = variant_.shuffled ? draw(kSoftmaxStream, 0) % 3 : 0;
    if (kind == 0) {
      for (Index i = 0; i < count; ++i) p[i] = round_float(format, p[i]);
      return;
    }
    const Index tile = kind == 1 ? count : Index{16} << draw(kSoftmaxStream, 1) % 4;
    float top = 0;
    for (Index first = 0; first < count; first += tile) {
      const Index end = std::min(count, first + tile);
      for (Index i = first; i < end; ++i) top = std::max(top, p[i]);
      if (!(top > 0)) continue;
      for (Index i = first; i < end; ++i) p[i] = round_float(format, p[i] / top) * top;
    }
  }

  const PrecisionProfile& profile_;
  const EmulationVariant& variant_;
  const EmulationFault& fault_;
};

}  // namespace

EmulationVariant draw_variant(std::uint64_t seed) {
  const auto words = contract::philox(seed, kVariantStream, 0);
  EmulationVariant variant{seed};
  variant.shuffled = words[0] % 4 != 0;
  variant.store_rounded = words[1] % 2 == 0;
  if (words[2] % 2 == 0) variant.casts = std::bitset<contract::kCastPointCount>(words[3]);
  return variant;
}

contract::Result<contract::Results> run_emulated(const contract::Problem& problem, const contract::Request& request,
                                                 const PrecisionProfile& profile, const EmulationVariant& variant,
                                                 const EmulationFault& fault) {
  if (profile.compute != NumberFormat::kFp32)
    return contract::Error{contract::ErrorCode::kDeclined,
                           "emulates arithmetic in fp32, profile " + profile.name + " computes in " +
                               std::string(info(profile.compute).name),
                           "emulation"};
  auto results =
      run_layer(contract::round_problem(problem, profile), request, EmulationPolicy(profile, variant, fault));
  if (!results) return results.error();
  // What collects from several blocks, and what fused kernels keep unrounded for themselves, is stored rounded.
  for (std::size_t i = 0; i < DatasetId::kCount; ++i)
    if (auto* tensor = results->find(DatasetId::from_index(i)))
      round_block(profile.storage[i], map(tensor->data(), 1, tensor->size()));
  return contract::convert<double>(*results);
}

}  // namespace plumbline::reference
