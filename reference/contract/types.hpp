#pragma once
#include <cstdint>

/// Host-device qualifier for the index arithmetic that CPU and CUDA code share.
#ifdef __CUDACC__
#define PLUMBLINE_HOST_DEVICE __host__ __device__
#else
#define PLUMBLINE_HOST_DEVICE
#endif

namespace plumbline::contract {

/// Every size, offset and index. Signed so that "before the first row" can be written; 64 bit so that
/// tokens * heads * head_dim never wraps.
using Index = std::int64_t;

}  // namespace plumbline::contract
