#include "golden/float_bits.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include "reference/contract/number_format.hpp"

namespace plumbline::golden {
namespace {

constexpr int kFractionBits = 10, kBias = 15;
constexpr unsigned kExponentMask = 0x1F, kFractionMask = 0x3FF;
constexpr double kSmallestNormal = 0x1p-14;

std::uint16_t sign_bit(double value) { return std::signbit(value) ? 0x8000 : 0; }

}  // namespace

double from_fp16_bits(std::uint16_t bits) {
  const unsigned exponent = bits >> kFractionBits & kExponentMask, fraction = bits & kFractionMask;
  double magnitude = 0;
  if (exponent == kExponentMask)
    magnitude = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(fraction, 1 - kBias - kFractionBits);
  else
    magnitude = std::ldexp(fraction | 1u << kFractionBits, static_cast<int>(exponent) - kBias - kFractionBits);
  return std::copysign(magnitude, bits & 0x8000 ? -1.0 : 1.0);
}

double from_bf16_bits(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

std::uint16_t to_fp16_bits(double value) {
  if (std::isnan(value)) return sign_bit(value) | 0x7E00;
  const double magnitude = std::abs(contract::round_to(contract::NumberFormat::kFp16, value));
  if (std::isinf(magnitude)) return sign_bit(value) | 0x7C00;
  // In units of the last place; a subnormal's are those of the smallest normal number.
  const int exponent = magnitude < kSmallestNormal ? 1 - kBias : std::ilogb(magnitude);
  const auto units = static_cast<unsigned>(std::ldexp(magnitude, kFractionBits - exponent));
  const auto steps = static_cast<unsigned>(exponent + kBias - 1) << kFractionBits;
  return static_cast<std::uint16_t>(sign_bit(value) | (steps + units));
}

std::uint16_t to_bf16_bits(double value) {
  if (std::isnan(value)) return sign_bit(value) | 0x7FC0;
  const auto rounded = static_cast<float>(contract::round_to(contract::NumberFormat::kBf16, value));
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(rounded) >> 16);
}

}  // namespace plumbline::golden
