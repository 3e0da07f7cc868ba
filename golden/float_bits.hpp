#pragma once
#include <cstdint>

// Bit patterns of the 16-bit float formats.
namespace plumbline::golden {

/// The number that a pattern stands for; exact.
double from_fp16_bits(std::uint16_t bits);
double from_bf16_bits(std::uint16_t bits);

/// The pattern of the nearest number of the format, ties to even, beyond the largest infinity; of a NaN a quiet NaN
/// of the same sign.
std::uint16_t to_fp16_bits(double value);
std::uint16_t to_bf16_bits(double value);

}  // namespace plumbline::golden
