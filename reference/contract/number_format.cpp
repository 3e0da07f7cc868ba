#include "reference/contract/number_format.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plumbline::contract {

namespace {

/// Exponent e of 2^e <= |x| < 2^(e+1), for finite x that is not zero; of subnormal doubles some smaller number.
int exponent_of(double x) {
  const auto field = static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52 & 0x7ff);
  return field - 1023;
}

/// 2^e for e in the range of normal doubles.
double power_of_two(int e) { return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52); }

}  // namespace

const std::vector<FormatInfo>& number_formats() {
  static const std::vector<FormatInfo> all = {
      {NumberFormat::kFp64, "fp64", 53, -1022, std::numeric_limits<double>::max(), "IEEE double"},
      {NumberFormat::kFp32, "fp32", 24, -126, 0x1.fffffep127, "IEEE single"},
      {NumberFormat::kFp32Truncated, "fp32-truncated", 24, -126, 0x1.fffffep127, "fp32 sums that truncate"},
      {NumberFormat::kTf32, "tf32", 11, -126, 0x1.ffcp127, "fp32 with 10 fraction bits, as tensor cores read it"},
      {NumberFormat::kFp16, "fp16", 11, -14, 65504, "IEEE half"},
      {NumberFormat::kBf16, "bf16", 8, -126, 0x1.fep127, "upper half of fp32"},
      {NumberFormat::kFp8E4m3, "fp8-e4m3", 4, -6, 448, "8 bits, 3 of fraction, no infinity"},
  };
  return all;
}

const FormatInfo& info(NumberFormat format) { return number_formats()[static_cast<std::size_t>(format)]; }

std::optional<NumberFormat> find_number_format(std::string_view name) {
  for (const FormatInfo& format : number_formats())
    if (format.name == name) return format.id;
  return std::nullopt;
}

double unit_roundoff(NumberFormat format) {
  const int extra = format == NumberFormat::kFp32Truncated ? 1 : 0;
  return power_of_two(extra - info(format).precision);
}

double smallest_subnormal(NumberFormat format) {
  if (format == NumberFormat::kFp64) return std::numeric_limits<double>::denorm_min();
  return power_of_two(info(format).min_exponent - info(format).precision + 1);
}

double ulp(NumberFormat format, double x) {
  if (!std::isfinite(x)) return 0;
  if (format == NumberFormat::kFp64)
    return std::nextafter(std::abs(x), std::numeric_limits<double>::infinity()) - std::abs(x);
  const FormatInfo& f = info(format);
  return power_of_two(std::max(exponent_of(x), f.min_exponent) - f.precision + 1);
}

double round_to(NumberFormat format, double x) {
  if (format == NumberFormat::kFp64 || !std::isfinite(x)) return x;
  if (format == NumberFormat::kFp32 || format == NumberFormat::kFp32Truncated) return static_cast<float>(x);
  const FormatInfo& f = info(format);
  const double unit = ulp(format, x);
  const double rounded = std::nearbyint(x / unit) * unit;  // x / unit is exact: unit is a power of two
  if (std::abs(rounded) <= f.largest) return rounded;
  return std::copysign(format == NumberFormat::kFp8E4m3 ? f.largest : std::numeric_limits<double>::infinity(), x);
}

double operand_scale(NumberFormat format, double largest) {
  const int top = exponent_of(info(format).largest);
  double scale = power_of_two(std::clamp(exponent_of(largest) - top, -1022, 1023));
  if (largest / scale > info(format).largest) scale *= 2;
  return scale;
}

}  // namespace plumbline::contract
