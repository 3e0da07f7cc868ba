#pragma once
#include <bitset>
#include <cstdint>
#include <functional>
#include <vector>

#include "reference/contract/implementation.hpp"
#include "reference/contract/precision.hpp"

namespace plumbline::reference {

/// What the profile leaves open: one way among many that a correct implementation may work. Everything is drawn from
/// `seed`; different seeds give other orders, tilings and scalings.
struct EmulationVariant {
  std::uint64_t seed = 0;
  bool shuffled = true;       ///< sums of products in a random order, in blocks of random length; else in natural order
  bool store_rounded = true;  ///< false: what may stay unrounded for the next operation does (fused kernels)
  std::bitset<contract::kCastPointCount> casts =
      ~std::bitset<contract::kCastPointCount>();  ///< of the profile's, those made
};

/// One of the ways: each property drawn from `seed`. A quarter of all seeds sum in natural order, half store without
/// rounding what follows, half make all casts and the others each cast with probability 1/2.
EmulationVariant draw_variant(std::uint64_t seed);

/// What a faulty implementation does, for proofs that the judge sees it.
struct EmulationFault {
  /// Called with every stage and gradient ([rows, elements of a row], `stride` apart) before it is stored; may be
  /// empty.
  using Tamper = std::function<void(contract::DatasetId, const std::vector<contract::Index>& rows, float* values,
                                    contract::Index cols, contract::Index stride)>;

  contract::NumberFormat operand = contract::NumberFormat::kFp64;       ///< kFp64: as stored
  contract::NumberFormat accumulation = contract::NumberFormat::kFp64;  ///< of partial sums; kFp64: the profile's
  Tamper tamper;
};

/// Runs the layer body in fp32 with the profile's roundings: storage, casts, accumulation, angles. `problem` is rounded
/// to the profile first. The results are what such an implementation would store.
/// Errors: those of run_layer; kDeclined for a profile whose arithmetic is not fp32.
contract::Result<contract::Results> run_emulated(const contract::Problem& problem, const contract::Request& request,
                                                 const contract::PrecisionProfile& profile,
                                                 const EmulationVariant& variant, const EmulationFault& fault = {});

}  // namespace plumbline::reference
