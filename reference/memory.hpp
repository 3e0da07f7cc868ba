#pragma once
#include "reference/contract/implementation.hpp"

namespace plumbline::reference {

/// Estimated peak bytes of one run with a scalar of `scalar_bytes`: problem, results, batch-wide and block-wide
/// buffers. Linear in the number of tokens.
double memory_bytes(const contract::LayerConfig& config, const contract::Packing& packing,
                    const contract::Request& request, double scalar_bytes);

}  // namespace plumbline::reference
