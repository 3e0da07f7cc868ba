#pragma once
#include <vector>

#include "reference/contract/tensor.hpp"

namespace plumbline::compare {

/// The index along each axis of an element of a row-major tensor.
inline std::vector<contract::Index> unravel(contract::Index element, const contract::Shape& shape) {
  std::vector<contract::Index> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

}  // namespace plumbline::compare
