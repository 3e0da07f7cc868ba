#pragma once
#include "reference/contract/types.hpp"

namespace plumbline::reference {

/// Whether so many multiply-adds are worth handing out to threads. Small layers are not: on a busy machine every
/// hand-out can cost a time slice. Bits never depend on the answer.
template <typename... Extents>
bool worth_threads(Extents... extents) {
  double operations = 1;
  for (const contract::Index extent : {static_cast<contract::Index>(extents)...})
    operations *= static_cast<double>(extent);
  return operations > 1e6;
}

}  // namespace plumbline::reference
