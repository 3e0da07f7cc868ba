// Includes every header of the contract, and uses the shared index arithmetic in device code.
#include "reference/contract/axes.hpp"
#include "reference/contract/case.hpp"
#include "reference/contract/check.hpp"
#include "reference/contract/communicator.hpp"
#include "reference/contract/config.hpp"
#include "reference/contract/dataset.hpp"
#include "reference/contract/implementation.hpp"
#include "reference/contract/index_math.hpp"
#include "reference/contract/layout.hpp"
#include "reference/contract/nearest.hpp"
#include "reference/contract/packing.hpp"
#include "reference/contract/presets.hpp"
#include "reference/contract/problem.hpp"
#include "reference/contract/random.hpp"
#include "reference/contract/regime.hpp"
#include "reference/contract/result.hpp"
#include "reference/contract/results.hpp"
#include "reference/contract/specified.hpp"
#include "reference/contract/stage.hpp"
#include "reference/contract/suite.hpp"
#include "reference/contract/tensor.hpp"
#include "reference/contract/types.hpp"
#include "reference/contract/weight.hpp"

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
