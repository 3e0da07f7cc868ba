#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace plumbline::contract {

/// Formats in which numbers are stored, cast or accumulated.
enum class NumberFormat : unsigned char {
  kFp64,
  kFp32,
  kFp32Truncated,  ///< fp32 sums of tensor cores, which drop the bits of an addend below the sum's last
  kTf32,
  kFp16,
  kBf16,
  kFp8E4m3,
};

struct FormatInfo {
  NumberFormat id;
  std::string_view name;
  int precision;     ///< bits of the significand, the hidden one included
  int min_exponent;  ///< of the smallest normal number 2^min_exponent
  double largest;    ///< largest finite number
  std::string_view meaning;
};

const FormatInfo& info(NumberFormat format);
const std::vector<FormatInfo>& number_formats();
std::optional<NumberFormat> find_number_format(std::string_view name);

/// Largest relative error of one rounding, u: half a unit in the last place for rounding to nearest, a whole one for
/// kFp32Truncated.
double unit_roundoff(NumberFormat format);
/// Smallest positive number, the absolute error of an underflow.
double smallest_subnormal(NumberFormat format);
/// Distance of neighbouring numbers at |x|: the unit in the last place. 0 for infinities and NaN.
double ulp(NumberFormat format, double x);

/// x rounded to nearest, ties to even, subnormals kept. Beyond the largest number: infinity (kFp8E4m3 has none and
/// saturates). kFp32Truncated rounds as kFp32: truncation belongs to sums, not to stores.
double round_to(NumberFormat format, double x);

/// The power of two by which values of at most |largest| are divided before they are rounded to a narrow format, so
/// that the largest lies in its last binade.
double operand_scale(NumberFormat format, double largest);

}  // namespace plumbline::contract
