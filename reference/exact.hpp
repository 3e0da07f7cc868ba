#pragma once
#include "reference/contract/implementation.hpp"

namespace plumbline::reference {

/// The truth: the whole layer in `Scalar` (double, or long double to check double), no rounding but the type's own.
/// Errors as `run_layer`. Compiled once, so callers need no Eigen.
template <typename Scalar>
contract::Result<contract::BasicResults<Scalar>> run_exact(const contract::Problem& problem,
                                                           const contract::Request& request);

}  // namespace plumbline::reference
