#pragma once
#include <array>
#include <cstdint>

namespace plumbline::contract {

/// Philox4x32-10 (Random123) as a pure function: 128 random bits for (seed, stream, index). No state, so any element
/// of any tensor can be made alone, on any machine, in any order.
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint32_t stream, std::uint64_t index);

/// Uniform in [0, 2^-32 ... 1): exactly k * 2^-32 with k the 32 bits given.
double uniform01(std::uint32_t bits);

/// Approximately standard normal: (sum of twelve 16-bit uniforms) - 6, exact in double; uses two Philox blocks.
/// Mean 0 and variance 1 up to 2^-16; support (-6, 6).
double normal(std::uint64_t seed, std::uint32_t stream, std::uint64_t index);

}  // namespace plumbline::contract
