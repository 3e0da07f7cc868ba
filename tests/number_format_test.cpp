#include "reference/contract/number_format.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference/contract/precision.hpp"

namespace plumbline::contract {
namespace {

TEST(NumberFormat, RoundsToTheNearestNumberTiesToEven) {
  EXPECT_EQ(round_to(NumberFormat::kBf16, 1 + 0x1p-8), 1);
  EXPECT_EQ(round_to(NumberFormat::kBf16, 1 + 0x3p-8), 1 + 0x1p-6);
  EXPECT_EQ(round_to(NumberFormat::kBf16, 1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
  EXPECT_EQ(round_to(NumberFormat::kFp32, 1 + 0x1p-24), 1);
  EXPECT_EQ(round_to(NumberFormat::kTf32, -(1 + 0x1.8p-10)), -(1 + 0x1p-9));
  EXPECT_EQ(round_to(NumberFormat::kFp16, 0x1p-25), 0);
  EXPECT_EQ(round_to(NumberFormat::kFp16, 0x1.8p-25), 0x1p-24);
  EXPECT_EQ(round_to(NumberFormat::kFp8E4m3, 0x1p-10), 0);
  EXPECT_EQ(round_to(NumberFormat::kFp8E4m3, 0x1.8p-10), 0x1p-9);
  EXPECT_EQ(round_to(NumberFormat::kFp8E4m3, 17), 16);
  EXPECT_TRUE(std::signbit(round_to(NumberFormat::kBf16, -0.0)));
}

TEST(NumberFormat, OverflowsToInfinityOrSaturates) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(round_to(NumberFormat::kFp16, 65519), 65504);
  EXPECT_EQ(round_to(NumberFormat::kFp16, 65520), infinity);
  EXPECT_EQ(round_to(NumberFormat::kBf16, -3.4e38), -infinity);
  EXPECT_EQ(round_to(NumberFormat::kFp8E4m3, -1e6), -448);
  EXPECT_EQ(round_to(NumberFormat::kBf16, infinity), infinity);
  EXPECT_TRUE(std::isnan(round_to(NumberFormat::kBf16, std::nan(""))));
}

/// Against the hardware's own conversions, over every 16-bit half of single precision.
TEST(NumberFormat, AgreesWithFloatArithmetic) {
  for (std::uint32_t high = 0; high < 0x10000; ++high)
    for (std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto x = std::bit_cast<float>(high << 16 | low);
      if (!std::isfinite(x)) continue;
      const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
      const auto want = std::bit_cast<float>((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
      ASSERT_EQ(round_to(NumberFormat::kBf16, x), want) << x;
    }
  for (double x = 1e-320; x < 1e300; x *= 1.37) ASSERT_EQ(round_to(NumberFormat::kFp32, x), static_cast<float>(x)) << x;
}

TEST(NumberFormat, RoundingErrsByAtMostU) {
  for (const FormatInfo& format : number_formats()) {
    const double u = unit_roundoff(format.id), tiny = smallest_subnormal(format.id);
    for (double x = 1e-30; x < 400; x *= 1.0037) {
      const double error = std::abs(round_to(format.id, x) - x);
      ASSERT_LE(error, std::max(u * x, 0.5 * tiny)) << format.name << " " << x;
      if (format.id == NumberFormat::kFp32Truncated) continue;
      ASSERT_LE(error, 0.5 * ulp(format.id, x)) << format.name << " " << x;
    }
  }
}

TEST(NumberFormat, OperandsAreScaledIntoTheLastBinade) {
  for (double x = 1e-12; x < 1e12; x *= 1.7) {
    const double scaled = x / operand_scale(NumberFormat::kFp8E4m3, x);
    EXPECT_GT(scaled, 448 / 2.0 - 1) << x;
    EXPECT_LE(scaled, 448) << x;
  }
}

TEST(NumberFormat, IsFoundByItsName) {
  for (const FormatInfo& format : number_formats()) EXPECT_EQ(find_number_format(format.name), format.id);
  EXPECT_FALSE(find_number_format("float"));
  for (const CastPointInfo& point : cast_points()) EXPECT_EQ(find_cast_point(point.name), point.id);
  EXPECT_EQ(cast_points().size(), kCastPointCount);
}

}  // namespace
}  // namespace plumbline::contract
