#include "reference/contract/random.hpp"

#include <Random123/philox.h>

namespace plumbline::contract {

std::array<std::uint32_t, 4> philox(std::uint64_t seed, std::uint32_t stream, std::uint64_t index,
                                    std::uint32_t block) {
  const r123::Philox4x32::ctr_type counter = {
      {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), stream, block}};
  const r123::Philox4x32::key_type key = {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const auto bits = r123::Philox4x32{}(counter, key);
  return {bits[0], bits[1], bits[2], bits[3]};
}

double uniform01(std::uint32_t bits) { return bits * 0x1p-32; }

double normal(std::uint64_t seed, std::uint32_t stream, std::uint64_t index) {
  const auto first = philox(seed, stream, index, 0), second = philox(seed, stream, index, 1);
  std::int64_t total = -6 * std::int64_t{65535};
  for (const std::uint32_t word : {first[0], first[1], first[2], first[3], second[0], second[1]})
    total += (word & 0xffff) + (word >> 16);
  return static_cast<double>(total) * 0x1p-16;
}

}  // namespace plumbline::contract
