// Includes every header of the contract, and uses the shared index arithmetic in device code.
// The list is written by CMake from the folder, so that no header is forgotten.
#include "every_contract_header.inc"

namespace plumbline::cuda {

using contract::Index;

/// For each position t of one segment: its first window key and the entries it sees. `keys` is [length, 2].
__global__ void key_ranges(Index length, Index window, Index ratio, Index* keys) {
  const Index t = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (t >= length) return;
  keys[2 * t] = contract::window_begin(t, window);
  keys[2 * t + 1] = contract::visible_entries(t, ratio, contract::group_count(length, ratio));
}

}  // namespace plumbline::cuda
