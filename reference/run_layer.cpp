#include "reference/run_layer.hpp"

#include "reference/exact.hpp"

namespace plumbline::reference {

template <typename Scalar>
contract::Result<contract::BasicResults<Scalar>> run_exact(const contract::Problem& problem,
                                                           const contract::Request& request) {
  return run_layer(problem, request, ExactPolicy<Scalar>{});
}

template contract::Result<contract::BasicResults<double>> run_exact<double>(const contract::Problem&,
                                                                            const contract::Request&);
template contract::Result<contract::BasicResults<long double>> run_exact<long double>(const contract::Problem&,
                                                                                      const contract::Request&);

}  // namespace plumbline::reference
