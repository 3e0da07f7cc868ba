#pragma once
#include <array>
#include <cstdint>

// Random numbers as pure functions of (seed, stream, index): no state, so any element of any tensor can be made alone,
// in any order, on any machine, with the same bits. Everything after Philox is integer arithmetic or an operation that
// IEEE 754 rounds exactly, and this code is compiled without contraction; tools/check_values.py says the same in numpy.
namespace plumbline::contract {

/// Philox4x32-10 (Random123): 128 bits for key (seed low, seed high), counter (index low, index high, stream, block).
std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint32_t stream, std::uint64_t index,
                                    std::uint32_t block = 0);

/// k * 2^-32 with k the 32 bits given: exact, in [0, 1).
double uniform01(std::uint32_t bits);

/// (u_0 + ... + u_11 - 6 * 65535) / 65536 with u the twelve 16-bit halves (low half first) of the four words of block 0
/// and the first two of block 1. Exact in double; mean 0, variance 1 - 2^-32, within (-6, 6).
double normal(std::uint64_t seed, std::uint32_t stream, std::uint64_t index);

}  // namespace plumbline::contract
